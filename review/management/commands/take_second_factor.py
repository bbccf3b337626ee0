"""take_second_factor NAME"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from review.management.step_command import account_named
from review.people import accounts
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = "Remove a lost second factor, as an admin does on the person's page."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = account_named(options["username"])
        accounts.remove_second_factor(user.pk, actor=OPERATOR)
        self.stdout.write(f"{user.username} no longer has a second factor.")
