"""Write a backup, and restore it."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from django.conf import settings
from django.core.exceptions import SuspiciousFileOperation
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import Storage
from django.core.management import call_command
from django.core.signing import BadSignature, Signer
from django.db import Error, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone
from pydantic import BaseModel, Field, ValidationError

from generation.common.storage import IMAGES, UPLOADS, copy, store
from generation.images.files import image_name
from generation.models import Endpoint, StoredImage
from generation.releases.exporters.manifest import MANIFEST, SUMS, Checksums, sha256_of
from mhb_site.backup import rows
from mhb_site.env import PRIVATE, close_to_others
from mhb_site.server import startup
from review.audit import acts, verification
from review.audit.trail import EVENTS, recording_events
from review.common.waking import wake_after_commit
from review.models import Audit, ChainHead, SitePause
from review.rules.text import is_storable

VERSION = 1  # of the folder's layout
TABLES = "tables"
_LAST = "last_backup.json"  # beside the images
SEAL = "SEAL"  # the HMAC of SHA256SUMS, and through it of every file
WHOLE_SITE = "all jobs and messages"  # as the trail of accounts names them
_SEAL_SALT = "mhb_site.backup.seal"
_SECRETS = ("metrics_token", "email_url", "sentry_dsn")


class BackupError(Exception):
    """One sentence: why a backup cannot be written or restored."""


class TableCounts(BaseModel):
    """How many rows a table has, and the last number that it gave one."""

    rows: int
    last: int = Field(ge=0, lt=2**63)


class BackedUpFile(BaseModel):
    """A file of a backup."""

    path: str
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What `restore` reads of the manifest of a backup, which somebody may have changed."""

    migrations: list[Annotated[list[str], Field(min_length=2, max_length=2)]]
    tables: dict[str, TableCounts]
    files: list[BackedUpFile]
    secrets: list[str]
    secret_key: str
    commit: str


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup contains. `chain`: where the audit trail ends, SEQUENCE:HASH."""

    tables: int
    rows: int
    files: int
    bytes: int
    chain: str
    faults: int = 0  # of the audit trail, which is checked when it is restored
    secrets: tuple[str, ...] = ()  # names of secrets that the backup lacks and this site has not set
    missing: tuple[str, ...] = ()  # images without a file
    sealed: bool = True  # by a site with this site's MHB_SECRET_KEY
    recorded: bool = True  # the site knows when it was written, as its page and alerts show

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, int]], files: Sequence[Mapping[str, Any]], **more: Any) -> "Backup":
        row_count = sum(table["rows"] for table in tables.values())
        size = sum(file["bytes"] for file in files)
        return cls(len(tables), row_count, len(files), size, **more)


def last_backup() -> datetime | None:
    """When the last backup of this site was written, as far as it knows."""
    try:
        with store(IMAGES).open(_LAST) as file:
            at = datetime.fromisoformat(json.load(file)["at"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # somebody wrote to it
        return None
    if timezone.is_naive(at):
        return None
    return at


def write(folder: Path, say: Callable[[str], None] = lambda _line: None) -> Backup:
    """Write the database at one moment, with images and uploads, into an empty folder.

    Until `SHA256SUMS` is there, which comes last but for `SEAL`, the folder is no backup.
    Raises BackupError.
    """
    _make_folder(folder)
    try:
        return _write(folder, say)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise BackupError(f"{folder} holds no complete backup: a file could not be copied ({reason}).") from error


def _write(folder: Path, say: Callable[[str], None]) -> Backup:
    began = timezone.now()
    checksums = Checksums(folder)
    counts: dict[str, dict[str, int]] = {}
    with rows.snapshot():
        applied = _check_migrated()
        (folder / TABLES).mkdir()
        for table in rows.tables():
            path = folder / TABLES / f"{table.name}.jsonl.gz"
            count = _write_lines(path, table.rows())
            last = 0
            if table.numbered:
                last = table.last_number()
            counts[table.name] = {"rows": count, "last": last}
            checksums.add(path)
            if count:
                say(f"{table.name}: {count} rows")
        head = ChainHead.objects.get(pk=EVENTS)
        absent = []
        for sha256 in StoredImage.objects.order_by("sha256").values_list("sha256", flat=True).iterator():
            for thumbnail in (False, True):
                if copied := _keep(folder, IMAGES, image_name(sha256, thumbnail=thumbnail)):
                    checksums.add(copied)
                elif not thumbnail:
                    absent.append(sha256)
        keys = set(Endpoint.objects.exclude(key_env="").values_list("key_env", flat=True))
    for name in _names(store(UPLOADS)):
        if copied := _keep(folder, UPLOADS, name):
            checksums.add(copied)
    own = [f"MHB_{name.upper()}" for name in _SECRETS if getattr(settings.ENV, name)]
    secrets = ["MHB_SECRET_KEY", *own, *sorted(keys)]
    chain = f"{head.sequence}:{head.hash}"
    checksums.write(
        {
            "backup": VERSION,
            "made_at": began.isoformat(),
            "database": connection.vendor,
            "commit": settings.COMMIT,
            "migrations": sorted(map(list, applied)),
            "tables": counts,
            "chain": chain,
            "secrets": secrets,
            "secret_key": _key_mark(),
        }
    )
    seal(folder)
    written = Backup.of(counts, checksums.entries, chain=chain, secrets=tuple(secrets), missing=tuple(absent))
    record = {"at": began.isoformat(), "sha256": sha256_of(folder / SUMS)}
    try:
        store(IMAGES).save(_LAST, ContentFile(json.dumps(record).encode()))
    except OSError:  # the site's own disk is full, and the backup is good
        return replace(written, recorded=False)
    return written


def check(folder: Path) -> dict[str, Any]:
    """The manifest of a backup all of whose files are as they were written. Raises BackupError."""
    try:
        about: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        last_line = (folder / SUMS).read_text(encoding="utf-8").splitlines()[-1]
    except (OSError, ValueError, IndexError, RecursionError):
        raise BackupError(f"{folder} is not a complete backup: {MANIFEST} or {SUMS} is missing or broken.") from None
    if not isinstance(about, dict) or about.get("backup") != VERSION or not is_storable(about):
        raise BackupError(f"{folder} was not written by this version's `backup`.")
    try:
        Manifest.model_validate(about, strict=True)  # `about` itself is read: a number is not its text
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise BackupError(f"{MANIFEST} is not what `backup` writes, at {place}.") from None
    if last_line != f"{sha256_of(folder / MANIFEST)}  {MANIFEST}":
        raise BackupError(f"{MANIFEST} was changed after the backup was written.")
    for entry in about["files"]:
        try:
            _check_file(folder, entry)
        except OSError as error:
            raise BackupError(f"{entry['path']} cannot be read ({error.strerror}).") from error
    return about


def _check_file(folder: Path, entry: Mapping[str, Any]) -> None:
    inside = Path(entry["path"])
    if inside.as_posix() != entry["path"] or inside.is_absolute() or ".." in inside.parts:
        raise BackupError(f"{entry['path']} is not in the backup.")
    path = folder / inside
    if not path.is_file():
        raise BackupError(f"{entry['path']} is missing from the backup.")
    if path.stat().st_size != entry["bytes"] or sha256_of(path) != entry["sha256"]:
        raise BackupError(f"{entry['path']} was changed after the backup was written.")


def seal(folder: Path) -> None:
    """Sign the checksums of a backup with a key made of MHB_SECRET_KEY, which is in no backup."""
    signed = Signer(salt=_SEAL_SALT).sign(sha256_of(folder / SUMS))
    (folder / SEAL).write_text(f"{signed}\n", encoding="ascii")


def is_sealed(folder: Path) -> bool:
    """Whether a site with this site's MHB_SECRET_KEY, or one of its fallbacks, wrote the backup."""
    try:
        signed = (folder / SEAL).read_text(encoding="ascii").strip()
        return bool(Signer(salt=_SEAL_SALT).unsign(signed) == sha256_of(folder / SUMS))
    except (OSError, ValueError, BadSignature):
        return False


def restore(folder: Path, say: Callable[[str], None] = lambda _line: None, *, unsealed: bool = False) -> Backup:
    """Fill this unused site with a backup, and compare every row and the audit trail.

    All rows or none: they are committed after the comparison, and with them the pause of the site,
    which makes no call and sends no message until `resume_site`. Raises BackupError.

    unsealed: accept one that no site with this MHB_SECRET_KEY has sealed.
    """
    about = check(folder)
    _check_schema(about)
    _check_unused()
    sealed = is_sealed(folder)
    if not sealed and not unsealed:
        raise BackupError(
            f"{folder} has no {SEAL} of this site's MHB_SECRET_KEY: anybody could have changed it. Set the key of the "
            "site that wrote it; if that is lost, or the backup is from before seals, add --unsealed."
        )
    call_command("migrate", verbosity=0)
    try:
        with transaction.atomic(durable=True):
            rows.lock_tables()
            _check_unused()
            _restore_files(folder, about)
            _restore_rows(folder, about["tables"], say)
            SitePause.objects.get_or_create()  # processes may run already
            audit = Audit()
            faults = sum(1 for _fault in verification.check(audit))
    except rows.InUse as error:
        raise BackupError("The site's processes use this database: stop them, and restore again.") from error
    except rows.RowError as error:
        raise BackupError(f"{error}; nothing was restored.") from error
    except (OSError, EOFError, ValueError, RecursionError, SuspiciousFileOperation, zlib.error) as error:
        raise BackupError(f"A file cannot be read or stored ({type(error).__name__}); nothing was restored.") from error
    except Error as error:
        reason = " ".join(str(error).splitlines()[:2])
        raise BackupError(f"Rows do not fit together ({reason}); nothing was restored.") from error
    secrets = tuple(name for name in about["secrets"] if not _is_set(name, about["secret_key"]))
    chain = f"{audit.sequence}:{audit.hash}"
    return Backup.of(about["tables"], about["files"], chain=chain, faults=faults, secrets=secrets, sealed=sealed)


@recording_events()
def pause_site() -> bool:
    """Let no job make a call and no message be sent; returns whether the site was running."""
    _pause, created = SitePause.objects.get_or_create()
    if created:
        acts.record_act(acts.Kind.JOB, "paused", WHOLE_SITE)
    return created


@recording_events()
def resume_site() -> bool:
    """Let jobs make calls and messages be sent again; returns whether the site was paused."""
    deleted, _by_model = SitePause.objects.all().delete()
    if deleted:
        acts.record_act(acts.Kind.JOB, "resumed", WHOLE_SITE)
        wake_after_commit("generation.tasks.run_lane")
        wake_after_commit("generation.tasks.send_messages")
    return bool(deleted)


def _check_unused() -> None:
    if used := rows.used_table():
        raise BackupError(f"This database is in use ({used} has rows): restore into an empty one.")


def _restore_rows(folder: Path, counts: Mapping[str, Mapping[str, int]], say: Callable[[str], None]) -> None:
    tables = rows.tables()
    for table in tables:
        if table.name not in counts:
            raise BackupError(f"The table {table.name} is missing from the backup; nothing was restored.")
    with rows.emptied():
        for table in tables:
            path = folder / TABLES / f"{table.name}.jsonl.gz"
            count = table.insert(_lines(path))
            expected = counts[table.name]["rows"]
            if count != expected:
                raise BackupError(f"{table.name} has {count} rows, not {expected}; nothing was restored.")
            if count:
                say(f"{table.name}: {count} rows")
    for table in tables:
        table.compare(_lines(folder / TABLES / f"{table.name}.jsonl.gz"))
        if table.numbered:
            table.continue_after(counts[table.name]["last"])


def _restore_files(folder: Path, about: Mapping[str, Any]) -> None:
    for entry in about["files"]:
        kind, _, name = entry["path"].partition("/")
        if kind not in (IMAGES, UPLOADS) or _is_stored(kind, name, entry["sha256"]):
            continue
        # An earlier restore that was refused may have left another file under this name.
        with (folder / entry["path"]).open("rb") as file:
            store(kind).save(name, File(file))


def _is_stored(kind: str, name: str, sha256: str) -> bool:
    try:
        with store(kind).open(name) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except FileNotFoundError:
        return False


def _check_schema(about: Mapping[str, Any]) -> None:
    theirs, ours = {(app, name) for app, name in about["migrations"]}, _of_the_code()
    if theirs == ours:
        return
    unknown, missing = sorted(theirs - ours), sorted(ours - theirs)
    name = ".".join((unknown or missing)[0])
    version = f"a newer version (migration {name} is unknown here)"
    if not unknown:
        version = f"an older version (without migration {name})"
    raise BackupError(
        f"The backup was written by {version}: "
        f"restore it with the version that wrote it ({about['commit'] or 'commit unknown'}), then upgrade."
    )


def _of_the_code() -> set[tuple[str, str]]:
    return startup.known_migrations(MigrationLoader(None))


def _check_migrated() -> set[tuple[str, str]]:
    """The applied migrations, which must be those of the code. Raises BackupError."""
    if problem := startup.problem():
        raise BackupError(problem)
    applied = set(MigrationLoader(connection).applied_migrations)
    if unknown := sorted(applied - _of_the_code()):
        raise BackupError(f"The database is of a newer version (migration {'.'.join(unknown[0])} is unknown here).")
    return applied


def _is_set(name: str, key_mark: str) -> bool:
    """Whether this site has a secret of the backup's site. `key_mark`: of that site's key."""
    if name == "MHB_SECRET_KEY":
        return key_mark == _key_mark()
    own = name.removeprefix("MHB_").lower()
    return bool(getattr(settings.ENV, own, "") or os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def _key_mark() -> str:
    """Tells whether another site has the same MHB_SECRET_KEY, without revealing it."""
    return hashlib.sha256(Signer(salt="mhb_site.backup").signature("key").encode()).hexdigest()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        close_to_others(folder)
        if any(folder.iterdir()):
            raise BackupError(f"{folder} is not empty: name a new folder.")
    except OSError as error:
        raise BackupError(f"{folder} cannot be used ({error.strerror}).") from error


def _names(stored: Storage, folder: str = "") -> Iterator[str]:
    """The names of all files in a store."""
    try:
        folders, files = stored.listdir(folder)
    except FileNotFoundError:
        return
    prefix = ""
    if folder:
        prefix = f"{folder}/"
    yield from sorted(f"{prefix}{name}" for name in files)
    for name in sorted(folders):
        yield from _names(stored, f"{prefix}{name}")


def _keep(folder: Path, kind: str, name: str) -> Path | None:
    """Copy a file into the backup; None if it is gone, as an upload that was imported meanwhile."""
    try:
        with store(kind).open(name) as file:
            copy(file, folder / kind / name)
    except FileNotFoundError:
        return None
    return folder / kind / name


def _write_lines(path: Path, lines: Iterator[str]) -> int:
    count = 0
    with gzip.open(path, "wt", compresslevel=5, encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")
