"""take_second_factor NAME"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from review.models import User
from review.people import accounts
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = "Remove a lost second factor, as an admin does on the person's page."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError("There is no account with this name.")
        accounts.remove_second_factor(user.pk, actor=OPERATOR)
        self.stdout.write(f"{user.username} no longer has a second factor.")
