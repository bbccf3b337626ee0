"""load_demo --models URL: fill an empty database with the demo."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mhb_site.demo.load import create_accounts, load
from review.models import User


class Command(BaseCommand):
    help = "Fill an empty database with the demo. Needs the simulated models (simulate_llm)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--models", required=True, metavar="URL", help="where simulate_llm listens, up to /v1")

    def handle(self, *args: Any, **options: Any) -> None:
        if User.objects.exists():
            raise CommandError("The database is not empty. The demo can only be loaded into an empty one.")
        create_accounts()
        load(options["models"], tell=self.stdout.write)
