"""The actions that import a source."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from generation.management.command_line import POLL, SettingsOptions, given_settings
from generation.models import Import, ImportRefusal, ImportStatus
from generation.models.work import Work
from generation.sources import importers, own_tables, queries, services
from generation.sources.importers.table_mapping import CONSTANTS, FIELDS
from generation.sources.own_tables import OwnTable
from generation.sources.settings import ImportSettings
from review.common.commands import Action, Positional, Shell

TABLE = "a table of your own (--format table)"
Texts = Sequence[str]


class ImportSource(Action):
    """Import a published data set into a source. Importing a file again adds nothing twice. Licence,
    citation and restrictions are those of a new source.
    """

    file: Positional[Path] = Field(description="a file; with images: a folder, a zip, or a file beside them")
    format: Annotated[str, Shell(choices=importers.available())]
    settings: Annotated[dict[str, Any], SettingsOptions(settings=ImportSettings)]
    map: Annotated[Texts, Shell(section=TABLE, metavar="FIELD=COLUMN")] = Field(
        (), description=f"which column is which field; fields: {', '.join(FIELDS)}. Without it, the columns are shown"
    )
    set: Annotated[Texts, Shell(section=TABLE, metavar="FIELD=VALUE")] = Field(
        (), description=f"a value for all records; fields: {', '.join(CONSTANTS)}"
    )
    mapping: Annotated[str | None, Shell(section=TABLE, metavar="NAME")] = Field(
        None, description="use a saved mapping"
    )
    save_mapping: Annotated[str | None, Shell(section=TABLE, metavar="NAME")] = Field(
        None, description="save this mapping under a name"
    )
    name: str = Field(description="the source's name: letters, digits, hyphens")

    def perform(self) -> dict[str, Any]:
        settings = ImportSettings(**given_settings(self.settings, ImportSettings))
        table = self._own_table(settings)
        run = services.start_import(
            self.file, format_name=self.format, name=self.name, updates=settings.update, table=table
        )
        if table and self.save_mapping:
            own_tables.save_mapping(self.save_mapping, table.mapping, None)
        while (run := services.run_import(run.pk)).status in (Work.Status.QUEUED, Work.Status.RUNNING):
            time.sleep(POLL)  # a worker woken by the sweeper was faster
        result: dict[str, Any] = {
            "source": run.source.name,
            "file": run.file_name,
            "layout": run.layout,
            "rows": run.rows,
            "added": run.added,
            "same": run.same,
            "differs": run.differs,
            "refused": run.refused,
            "facets": run.facets,
            "joined": run.joined,
            "oddities": run.oddities,
            "refusals": _entries(run, differs=False),
        }
        if differences := _entries(run, differs=True):
            result["differences"] = differences
        result["failed"] = int(run.status != Work.Status.DONE)
        if run.detail:
            result["error"] = run.detail
        return result

    def _own_table(self, settings: ImportSettings) -> OwnTable | None:
        """What is said of a table. Raises WrongMapping, UnknownMapping."""
        if not (self.map or self.set or self.mapping):
            return None
        mapping = own_tables.parse_mapping(list(self.map), list(self.set), self.mapping)
        return OwnTable(mapping, settings.licence, settings.citation, settings.restrictions)


def _entries(run: Import, *, differs: bool) -> list[dict[str, Any]]:
    """The refused rows of an import, or those that differ from a known one."""
    entries = ImportRefusal.objects.filter(run=run, differs=differs).order_by("pk")
    return [{"where": entry.where, "reason": entry.reason} for entry in entries]


class CancelImport(Action):
    """Cancel an import; records already added stay. Without a number, list the imports that can be
    cancelled.
    """

    number: Annotated[int | None, Shell(positional=True, metavar="NUMBER")] = None

    def perform(self) -> dict[str, Any]:
        if self.number is not None:
            run = services.cancel_import(self.number)
            return {"import": run.pk, "status": run.status, "rows": run.rows, "added": run.added}
        unfinished = []
        for run in queries.imports().filter(status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING)):
            unfinished.append(
                {"import": run.pk, "status": run.status, "source": run.source.name, "file": run.file_name}
            )
        return {"imports": unfinished}
