"""publish_results RELEASE [--run RUN --model MODEL --coverage SETTLED/CRITERIA] [--withdraw]"""

import re
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError
from django.urls import reverse

from evaluation.releases import services
from generation.releases import queries as releases_queries
from review.management.step_command import StepCommand
from review.rules.permissions import OPERATOR


def coverage_named(text: str) -> dict[str, int]:
    """The numbers of '142/241'."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if match is None:
        raise ArgumentTypeError("write SETTLED/CRITERIA, such as 142/241")
    return {"settled": int(match[1]), "criteria": int(match[2])}


class Command(StepCommand):
    help = "Publish the results of a release on a page that anyone can read, or withdraw that page."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("release", help="NAME, or NAME@VERSION")
        parser.add_argument("--withdraw", action="store_true", help="withdraw the public page, or incomplete results")
        parser.add_argument("--run", type=int, help="publish incomplete results of this run, beside their coverage …")
        parser.add_argument("--model", help="… those of this model")
        parser.add_argument(
            "--coverage", type=coverage_named, metavar="SETTLED/CRITERIA", help="their coverage, as the results say it"
        )

    def step(self, **options: Any) -> dict[str, Any]:
        release = releases_queries.release(options["release"])
        address = reverse("public-release-version", args=[release.name, release.version])
        if options["run"] is None and options["model"] is None:
            if options["withdraw"]:
                change = services.withdraw
            else:
                change = services.publish
            change(release, actor=OPERATOR)
            return {"release": str(release), "public": None if options["withdraw"] else address}
        if None in (options["run"], options["model"]):
            raise CommandError("Give both --run and --model.")
        named = {"run": options["run"], "model": options["model"]}
        if options["withdraw"]:
            services.withdraw_incomplete(release, **named, actor=OPERATOR)
        elif options["coverage"] is None:
            raise CommandError("Name the coverage of these results with --coverage SETTLED/CRITERIA.")
        else:
            services.publish_incomplete(release, **named, **options["coverage"], actor=OPERATOR)
        return {"release": str(release), "public": address, **named}
