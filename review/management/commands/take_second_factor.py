"""take_second_factor NAME"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from review.models import User
from review.people import accounts
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = "Take away the second factor of somebody who has lost it, as an admin does on the person's page."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError("There is no account of this name.")
        accounts.take_second_factor(user.pk, actor=OPERATOR)
        self.stdout.write(f"{user.username} has no second factor any more.")
