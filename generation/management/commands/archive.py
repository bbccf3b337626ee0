"""archive (source|record|batch) NUMBER [--restore]"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.http import Http404

from generation.removal import queries, services
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Have lists and choices leave out a source, a record or a batch. It stays readable; --restore takes it back."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=list(queries.MODELS))
        parser.add_argument("number", type=int)
        parser.add_argument("--restore", action="store_true")

    def step(self, **options: Any) -> dict[str, Any]:
        if options["restore"]:
            change = services.restore
        else:
            change = services.archive
        try:
            row = change(options["kind"], options["number"], actor=None)
        except Http404:
            raise CommandError(f"There is no {options['kind']} {options['number']}.") from None
        return {options["kind"]: str(row), "archived": row.archived_at is not None}
