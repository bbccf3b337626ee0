"""publish_results RELEASE [--withdraw]"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from evaluation.errors import EvaluationError
from evaluation.releases import services
from generation.errors import GenerationError
from generation.releases import queries as releases_queries
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = "Publish the results of a release on a page that anyone can read, or withdraw that page."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("release", help="NAME, or NAME@VERSION")
        parser.add_argument("--withdraw", action="store_true", help="withdraw the public page")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            release = releases_queries.release(options["release"])
            if options["withdraw"]:
                services.withdraw(release, actor=OPERATOR)
                self.stdout.write(f"{release}: no longer public")
            else:
                services.publish(release, actor=OPERATOR)
                url = reverse("public-release-version", args=[release.name, release.version])
                self.stdout.write(f"{release}: published at {url}")
        except (EvaluationError, GenerationError) as error:
            raise CommandError(str(error)) from error
