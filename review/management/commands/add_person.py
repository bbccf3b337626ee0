"""add_person NAME --role physician --email ana@example.org"""

from argparse import ArgumentParser
from typing import Any

from review.management.step_command import StepCommand
from review.people import accounts, invitations
from review.rules.answers import shown_values
from review.rules.permissions import OPERATOR, UserRole


class Command(StepCommand):
    help = (
        "Create an account and e-mail its owner a link to set the password. Without e-mail, the link is printed once."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the person's name; the username is made from it (Ana Ruiz: ana.ruiz)")
        parser.add_argument("--role", choices=list(map(str, UserRole)), default=str(UserRole.PHYSICIAN))
        parser.add_argument("--email", default="")

    def step(self, **options: Any) -> dict[str, Any]:
        user = accounts.check_new(name=options["name"], role=options["role"], email=options["email"])
        [user] = accounts.invite_new([user], actor=OPERATOR)
        [invitation] = invitations.send_invitations([user])
        return {"username": user.username, "role": user.role, "email": user.email, **shown_values(invitation)}
