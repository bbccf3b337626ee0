"""changepassword NAME"""

from argparse import ArgumentParser
from getpass import getpass
from typing import Any

from django.core.management.base import CommandError

from review.management.step_command import StepCommand, account_named
from review.people import accounts
from review.rules.permissions import OPERATOR


class Command(StepCommand):
    help = "Set an account's password, as an admin does on its page: the change is recorded, and its API tokens are revoked."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def step(self, **options: Any) -> dict[str, Any]:
        user = account_named(options["username"])
        password = getpass("New password: ")
        if getpass("New password (again): ") != password:
            raise CommandError("The two passwords differ. Nothing was changed.")
        accounts.set_password(user.pk, password, actor=OPERATOR)
        return {"username": user.username, "password": "changed"}
