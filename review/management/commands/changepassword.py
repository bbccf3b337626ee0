"""changepassword NAME"""

from argparse import ArgumentParser
from getpass import getpass
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from review.models import User
from review.people import accounts
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = "Set an account's password, as an admin does on its page: the change is recorded, and its API tokens are revoked."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError("There is no account with this name.")
        password = getpass("New password: ")
        if getpass("New password (again): ") != password:
            raise CommandError("The two passwords differ. Nothing was changed.")
        try:
            validate_password(password, user)
        except ValidationError as error:
            raise CommandError("\n".join(error.messages)) from None
        accounts.set_password(user.pk, password, actor=OPERATOR)
        self.stdout.write(f"{user.username} has a new password.")
