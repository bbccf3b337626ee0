"""freeze_release NAME --benchmark mhb"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from generation.management.command_line import Step, readable
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from review.rules.permissions import OPERATOR, Can, require


class Command(Step):
    help = "Freeze all approved samples of a benchmark as the next version of a release; prints first what goes in."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--benchmark", required=True)
        parser.add_argument("--preview", action="store_true", help="print what would go in, and freeze nothing")

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.PRODUCE)
        samples_services.apply_outcomes()  # what physicians decided a moment ago belongs to it
        preview = asdict(releases_services.preview(options["name"], benchmark=options["benchmark"]))
        if options["preview"]:
            return preview
        for key, value in preview.items() if not options["json"] else ():
            self.stdout.write(f"{key}: {readable(value)}")
        release = releases_services.freeze_release(options["name"], benchmark=options["benchmark"])
        return {
            "release": release.name,
            "version": release.version,
            "benchmark": release.benchmark,
            "samples": release.samples_count,
            "statuses": release.statuses,
            "rubrics": release.rubrics_count,
            "counts": release.counts,
            "simulated": release.simulated,
            "sha256": release.sha256,
        }
