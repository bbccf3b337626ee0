"""withdraw_sample ID --reason TEXT"""

from argparse import ArgumentParser
from typing import Any

from generation.models import Release
from generation.samples import errata
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Withdraw an approved sample: it is left out of later releases, and releases that contain it show an erratum."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("sample", metavar="ID", help="the sample's number, or its key in a release")
        parser.add_argument("--reason", required=True)

    def step(self, **options: Any) -> dict[str, Any]:
        erratum = errata.withdraw(errata.sample_id_of(options["sample"]), actor=None, reason=options["reason"])
        releases = Release.objects.filter(samples__version__sample=erratum.sample_id).order_by("pk").distinct()
        return {
            "sample": erratum.sample.key,
            "reason": erratum.reason,
            "releases": [release.reference for release in releases],
        }
