"""publish_results RELEASE [--withdraw]"""

from argparse import ArgumentParser
from typing import Any

from django.urls import reverse

from evaluation.releases import services
from generation.releases import queries as releases_queries
from review.management.step_command import StepCommand
from review.rules.permissions import OPERATOR


class Command(StepCommand):
    help = "Publish the results of a release on a page that anyone can read, or withdraw that page."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("release", help="NAME, or NAME@VERSION")
        parser.add_argument("--withdraw", action="store_true", help="withdraw the public page")

    def step(self, **options: Any) -> dict[str, Any]:
        release = releases_queries.release(options["release"])
        change = services.withdraw if options["withdraw"] else services.publish
        address = reverse("public-release-version", args=[release.name, release.version])
        change(release, actor=OPERATOR)
        return {"release": str(release), "public": None if options["withdraw"] else address}
