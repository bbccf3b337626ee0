"""freeze_release NAME --benchmark mhb"""

from argparse import ArgumentParser
from typing import Any

from generation.management.command_line import Step
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from review.rules.permissions import OPERATOR, Can, require


class Command(Step):
    help = "Freeze all approved samples of a benchmark as the next version of a release."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--benchmark", required=True)

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.PRODUCE)
        samples_services.apply_outcomes()  # what physicians decided a moment ago belongs to it
        release = releases_services.freeze_release(options["name"], benchmark=options["benchmark"])
        return {
            "release": release.name,
            "version": release.version,
            "benchmark": release.benchmark,
            "samples": release.samples_count,
            "rubrics": release.rubrics_count,
            "counts": release.counts,
            "simulated": release.simulated,
            "sha256": release.sha256,
        }
