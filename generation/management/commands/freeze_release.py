"""freeze_release NAME --benchmark mhb"""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from generation.errors import WrongCard
from generation.management.command_line import add_settings, given_settings
from generation.releases import services as releases_services
from generation.releases.freezing.card_fields import CARD_FIELDS, merge_card
from generation.releases.freezing.composition import Composition
from review.management.step_command import StepCommand, readable

LARGEST_CARD = 200_000  # bytes


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


class Command(StepCommand):
    help = "Freeze approved samples of a benchmark as the next version of a release; first prints what goes in."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--benchmark", required=True)
        parser.add_argument(
            "--batch", type=int, action="append", default=[], metavar="N", help="only this batch (may be repeated)"
        )
        add_settings(parser, Composition, omit=("batches",))
        parser.add_argument(
            "--card",
            type=Path,
            metavar="FILE",
            help=f"texts for the data card, a JSON object: {', '.join(CARD_FIELDS)}; others stay as in the previous version",
        )
        parser.add_argument("--preview", action="store_true", help="print what would go in, and freeze nothing")

    def step(self, **options: Any) -> dict[str, Any]:
        conditions = [name for name, _value in options["where"] or ()]
        if len(set(conditions)) < len(conditions):  # only the last one would count
            raise CommandError("--where: a field takes one value. Name batches with --batch to combine several.")
        composition = Composition(**given_settings(options, Composition) | {"batches": tuple(options["batch"])})
        card = {}
        if options["card"]:
            card = read_card(options["card"])
        choice: dict[str, Any] = {"benchmark": options["benchmark"], "composition": composition}
        preview = asdict(releases_services.preview(options["name"], **choice))
        if options["preview"]:
            return preview
        for key, value in preview.items() if not options["json"] else ():
            self.stdout.write(f"{key}: {readable(value)}")
        release = releases_services.freeze_release(options["name"], **choice, card=card)
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
