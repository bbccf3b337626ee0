"""add_person NAME --role physician --email ana@example.org"""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from review.people import accounts, invitations
from review.rules.permissions import OPERATOR, UserRole
from review.rules.shown_values import shown


class Command(BaseCommand):
    help = (
        "Create an account and e-mail its owner a link to set the password. Without e-mail, the link is printed once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the person's name; the username is made from it (Ana Ruiz: ana.ruiz)")
        parser.add_argument("--role", choices=list(map(str, UserRole)), default=str(UserRole.PHYSICIAN))
        parser.add_argument("--email", default="")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = accounts.check_new(name=options["name"], role=options["role"], email=options["email"])
        except ValidationError as error:
            lines = (f"{name}: {' '.join(messages)}" for name, messages in error.message_dict.items())
            raise CommandError("; ".join(lines)) from None
        [user] = accounts.invite_new([user], actor=OPERATOR)
        [invitation] = invitations.send_invitations([user])
        result = shown(invitation, "username=user.username role=user.role email=user.email link emailed expires_at")
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False, default=str))
            return
        for key, value in result.items():
            self.stdout.write(f"{key}: {value}")
