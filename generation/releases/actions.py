"""The actions on releases."""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from django.core.management.base import CommandError
from django.db import DatabaseError
from pydantic import Field

from generation.errors import WrongCard
from generation.management.command_line import SettingsOptions, given_settings
from generation.releases import comparing, export, exporters, hub, queries, services
from generation.releases.export import ExportSettings
from generation.releases.freezing.card_fields import CARD_FIELDS, merge_card
from generation.releases.freezing.composition import Composition
from generation.releases.programs import verify_release
from review.audit import exports
from review.common.commands import Action, Positional, Shell
from review.rules.permissions import OPERATOR

LARGEST_CARD = 200_000  # bytes
NOTICE = "The text of {} must not be published, and this export contains it. Share an export made with --by-reference."

NamedRelease = Annotated[str, Shell(positional=True), Field(description="NAME, or NAME@VERSION")]


class CompareReleases(Action):
    """Compare two releases of a benchmark: samples added, removed, reworded and re-released, with
    what differs.
    """

    before: NamedRelease
    after: NamedRelease
    change: Annotated[str, Shell(choices=comparing.Change.values)] = Field("", description="list only these samples")

    def perform(self) -> dict[str, Any]:
        difference = comparing.compare(queries.release(self.before), queries.release(self.after), OPERATOR)
        samples = [asdict(row) for row in difference.samples(self.change)]
        return {**difference.summary, "samples": samples}


class ExportRelease(Action):
    """Write a release as files, with data card, manifest and checksums. The same release gives the
    same bytes.
    """

    name: NamedRelease
    format: Annotated[str, Shell(choices=exporters.available())]
    out: Path
    settings: Annotated[dict[str, Any], SettingsOptions(settings=ExportSettings)]

    def perform(self) -> dict[str, Any]:
        release = queries.release(self.name)
        settings = ExportSettings(**given_settings(self.settings, ExportSettings))
        chosen = export.Export(release, self.format, **settings.model_dump())
        try:
            result = chosen.write(self.out)
        except OSError as error:
            raise CommandError(f"Cannot write to {self.out}: {error.strerror}.") from error
        withheld = queries.withheld_sources(release)
        if withheld and not settings.by_reference:
            return {**result, "notice": NOTICE.format(", ".join(withheld))}
        return result


class PushRelease(Action):
    __doc__ = f"Publish a release as a data set on the Hugging Face hub. The token is read from {hub.TOKEN}."

    name: NamedRelease
    repository: Annotated[str, Shell(metavar="OWNER/NAME")] = Field(description="created if it is missing")
    private: bool = Field(False, description="if it is created, only its owner can see it")

    def perform(self) -> dict[str, Any]:
        return hub.push_release(queries.release(self.name), self.repository, private=self.private)


class FreezeRelease(Action):
    """Freeze approved samples of a benchmark as the next version of a release; first prints what
    goes in.
    """

    name: Positional[str]
    benchmark: str
    batch: Annotated[Sequence[int], Shell(metavar="N")] = Field((), description="only this batch (may be repeated)")
    composition: Annotated[dict[str, Any], SettingsOptions(settings=Composition, omit=("batches",))]
    card: Annotated[Path | None, Shell(metavar="FILE")] = Field(
        None,
        description=f"texts for the data card, a JSON object: {', '.join(CARD_FIELDS)}; others stay as in the previous version",
    )
    preview: bool = Field(False, description="print what would go in, and freeze nothing")

    def perform(self) -> dict[str, Any]:
        conditions = [name for name, _value in self.composition["where"] or ()]
        if len(set(conditions)) < len(conditions):  # only the last one would count
            raise CommandError("--where: a field takes one value. Name batches with --batch to combine several.")
        composition = Composition(**given_settings(self.composition, Composition), batches=tuple(self.batch))
        card = {}
        if self.card:
            card = read_card(self.card)
        choice: dict[str, Any] = {"benchmark": self.benchmark, "composition": composition}
        preview = asdict(services.preview(self.name, **choice))
        if self.preview:
            return preview
        self.show(preview)
        release = services.freeze_release(self.name, **choice, card=card)
        return {
            "release": release.name,
            "version": release.version,
            "benchmark": release.benchmark,
            "samples": release.samples_count,
            "held_out": release.held_out_count,
            "statuses": release.statuses,
            "rubrics": release.rubrics_count,
            "counts": release.counts,
            "excluded": release.excluded,
            "simulated": release.simulated,
            "sha256": release.sha256,
            "held_out_sha256": release.held_out_sha256,
        }


def read_card(path: Path) -> dict[str, str]:
    """The texts in a file. Raises CommandError, which names the file."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(LARGEST_CARD))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, no JSON, too deep, or cut off at the limit
        raise CommandError(f"{path}: it must be a JSON object of texts, at most {LARGEST_CARD} bytes.") from error
    if not isinstance(content, dict):
        raise CommandError(f"{path}: it must be a JSON object of texts.")
    try:
        merge_card({}, content)
    except WrongCard as error:
        raise CommandError(f"{path}: {error}") from error
    return content


class VerifyRelease(Action):
    """Check an exported release: checksums, agreement, audit trail, and whether this site wrote it,
    if it is its own.
    """

    requires_system_checks = []

    folder: Annotated[Path, Shell(positional=True, metavar="DIR")]

    def perform(self) -> dict[str, Any]:
        sys.dont_write_bytecode = True  # add nothing to the checked folder
        try:
            faults = verify_release.faults_of(self.folder)
        except OSError as error:
            raise CommandError(f"There is no release to check in {self.folder}: {error}") from error
        with suppress(DatabaseError, OSError, ValueError, LookupError, TypeError):  # without a database, or not its own
            about = json.loads((self.folder / "croissant.json").read_text(encoding="utf-8"))
            faults += exports.faults(self.folder, verify_release.title(about))
        return {"faults": faults, "failed": len(faults)}
