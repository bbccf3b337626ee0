"""Whether the database can be used; if not, why, in one sentence."""

import logging
import re
import threading
import time

import psycopg
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, connection
from django.db.migrations.loader import MigrationLoader

from review.common.disk import is_disk_full

log = logging.getLogger(__name__)

EVERY = 2.0  # seconds between two looks
CONNECT_SECONDS = 5
CUT_STATES = ("08", "57P0")  # SQLSTATEs of a connection that failed, or that the server ended
_READY = threading.Event()  # once seen, the tables do not go away again


class Unusable(Exception):
    """One sentence: the database cannot be reached, or this version cannot use it."""


def problem() -> str:
    """Why the database cannot be used now; "" if it can."""
    try:
        loader = history()
    except Unusable as error:
        return str(error)
    missing = len(known_migrations(loader) - set(loader.applied_migrations))
    if missing:
        return f"The database lacks {missing} migrations: run `manage.py migrate`."
    return ""


def history() -> MigrationLoader:
    """The migrations of this version and those of the database. Raises Unusable.

    A database of a newer version can be used: migrations within a minor version only add.
    """
    other = connection.copy()  # a pool hides the cause of a failed connection, and waits for long
    try:
        if other.vendor == "postgresql":
            other.settings_dict["OPTIONS"].pop("pool", None)
            other.settings_dict["OPTIONS"]["connect_timeout"] = CONNECT_SECONDS
        loader = MigrationLoader(other)
    except OperationalError as error:
        raise Unusable(_unreachable(error)) from error
    finally:
        other.close()
    known = known_migrations(loader)
    newest = {app: name[:4] for app, name in sorted(known)}
    for app, name in sorted(set(loader.applied_migrations) - known):
        if name[:4] <= newest.get(app, ""):
            raise Unusable(
                f"This database was made before version 0.1.0 (migration {app}.{name}) and cannot be upgraded."
            )
    return loader


def known_migrations(loader: MigrationLoader) -> set[tuple[str, str]]:
    """The migrations of this version."""
    return set(loader.disk_migrations)


def _unreachable(error: OperationalError) -> str:
    """The cause of a failed connection, in one sentence without the password."""
    if connection.vendor == "sqlite":
        return f"The database {settings.DATABASES['default']['NAME']} cannot be opened: {error}."
    said = str(error).strip()
    fatal = re.search(r"FATAL: +(.*)", said)
    place = f"{connection.settings_dict['HOST'] or 'localhost'}:{connection.settings_dict['PORT'] or 5432}"
    if fatal is None:
        return f"The database at {place} cannot be reached: {said.splitlines()[0]}."
    return f"The database at {place} refuses the connection: {fatal[1].strip()} (check MHB_DATABASE_URL)."


def is_ready() -> bool:
    """Whether the database can be used. Says once why not."""
    if not _READY.is_set():
        _look()
    return _READY.is_set()


def wait() -> None:
    """Return once the database can be used."""
    while not is_ready():
        time.sleep(EVERY)


_looking, _looked_at, _said = threading.Lock(), -EVERY, ""


def _look() -> None:
    global _looked_at, _said
    with _looking:
        if _READY.is_set() or time.monotonic() - _looked_at < EVERY:
            return
        found = problem()
        _looked_at = time.monotonic()
        if not found:
            _READY.set()
        elif found != _said:
            log.warning("%s Waiting.", found)
        _said = found


def explained(error: BaseException) -> str:
    """One sentence for an error of a command that a database in this state causes; else ""."""
    if isinstance(error, OSError) and is_disk_full(error):
        return f"The disk is full ({error.filename or settings.ENV.data_dir}). Make room, and run the command again."
    if not isinstance(error, Error):
        return ""
    if is_disk_full(error):
        return "The disk of the database is full. Make room, and run the command again: what it had finished is kept."
    return problem() or _interrupted(error)


def _interrupted(error: Error) -> str:
    """One sentence for a connection that ended while a command used it; else ""."""
    state = getattr(error.__cause__, "sqlstate", None)
    was_cut = isinstance(error, InterfaceError | OperationalError) and isinstance(error.__cause__, psycopg.Error)
    if was_cut and (state is None or state.startswith(CUT_STATES)):
        return "The connection to the database was cut. Run the command again: what it had finished is kept."
    return ""
