"""import_source --format FORMAT --name NAME FILE"""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from generation.management.command_line import POLL
from generation.models import ImportRefusal
from generation.models.work import Work
from generation.sources import importers, own_tables, services
from generation.sources.importers.table_mapping import CONSTANTS, FIELDS
from generation.sources.own_tables import OwnTable
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Import a published data set into a source. Importing a file again adds nothing twice."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a file; with images: a folder, a zip, or a file beside them")
        parser.add_argument("--format", required=True, choices=importers.available())
        parser.add_argument(
            "--update",
            action="store_true",
            help="a record that differs from the one with its id becomes its next revision",
        )
        table = parser.add_argument_group("a table of your own (--format table)")
        table.add_argument(
            "--map",
            action="append",
            default=[],
            metavar="FIELD=COLUMN",
            help=f"which column is which field; fields: {', '.join(FIELDS)}. Without it, the columns are shown",
        )
        table.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="FIELD=VALUE",
            help=f"a value for all records; fields: {', '.join(CONSTANTS)}",
        )
        table.add_argument("--mapping", metavar="NAME", help="use a saved mapping")
        table.add_argument("--save-mapping", metavar="NAME", help="save this mapping under a name")
        table.add_argument("--licence", default="", help="the licence of a new source")
        table.add_argument("--citation", default="", help="how to cite a new source")
        table.add_argument("--restrictions", default="", help="what the licence or the owner forbids")
        parser.add_argument("--name", required=True, help="the source's name: letters, digits, hyphens")

    def step(self, **options: Any) -> dict[str, Any]:
        table = _own_table(options)
        run = services.start_import(
            options["file"], format_name=options["format"], name=options["name"], updates=options["update"], table=table
        )
        if table and options["save_mapping"]:
            own_tables.save_mapping(options["save_mapping"], table.mapping, None)
        while (run := services.run_import(run.pk)).status in (Work.Status.QUEUED, Work.Status.RUNNING):
            time.sleep(POLL)  # a worker woken by the sweeper was faster
        entries = ImportRefusal.objects.filter(run=run).order_by("pk")
        refusals, differences = (
            [{"where": entry.where, "reason": entry.reason} for entry in entries if entry.differs == differs]
            for differs in (False, True)
        )
        return {
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
            "refusals": refusals,
            **({"differences": differences} if differences else {}),
            "failed": int(run.status != Work.Status.DONE),
            **({"error": run.detail} if run.detail else {}),
        }


def _own_table(options: dict[str, Any]) -> OwnTable | None:
    """What the options say of a table. Raises WrongMapping, UnknownMapping."""
    told = options["map"] or options["set"]
    if not told and not options["mapping"]:
        return None
    mapping = own_tables.parse_mapping(options["map"], options["set"], options["mapping"])
    return OwnTable(mapping, options["licence"], options["citation"], options["restrictions"])
