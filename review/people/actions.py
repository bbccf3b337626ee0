"""The actions on accounts."""

from getpass import getpass
from pathlib import Path
from typing import Annotated, Any

from django.core.management.base import CommandError
from pydantic import Field

from review.common.commands import Action, Positional, Shell
from review.models import User
from review.people import accounts, invitations, roster
from review.rules.permissions import OPERATOR, UserRole
from review.rules.shown_fields import shown_values


def account_named(username: str) -> User:
    """The account with this name. Raises CommandError."""
    user = User.objects.filter(username=username).first()
    if user is None:
        raise CommandError(f"There is no account {username}.")
    return user


class AddPerson(Action):
    """Create an account and e-mail its owner a link to set the password. Without e-mail, the link
    is printed once.
    """

    name: Positional[str] = Field(description="the person's name; the username is made from it (Ana Ruiz: ana.ruiz)")
    role: Annotated[str, Shell(choices=list(map(str, UserRole)))] = str(UserRole.PHYSICIAN)
    email: str = ""

    def perform(self) -> dict[str, Any]:
        user = accounts.check_new(name=self.name, role=self.role, email=self.email)
        [user] = accounts.invite_new([user], actor=OPERATOR)
        [invitation] = invitations.send_invitations([user])
        return {"username": user.username, "role": user.role, "email": user.email, **shown_values(invitation)}


class ImportPeople(Action):
    __doc__ = (
        "Make the accounts that a CSV file lists and e-mail each person an invitation link. Without e-mail it is printed "
        f"once. If one row is refused, no account is made. Columns: {', '.join(roster.COLUMNS)}; only name is needed."
    )

    file: Positional[Path]
    dry_run: bool = Field(False, description="only show what would happen; create no account")
    simulated: bool = Field(
        False,
        description="accounts of simulated physicians, for `demo_reviews`: nobody is invited, and nobody can sign in",
    )

    def perform(self) -> dict[str, Any]:
        try:
            with self.file.open("rb") as file:
                parsed = roster.read_roster(self.file.name, file.read(roster.MAX_BYTES + 1))
        except OSError as error:
            raise CommandError(f"{self.file}: {error.strerror}") from None
        users: list[User] = []
        if not self.dry_run and not parsed.refusals:
            users = accounts.import_people(parsed, actor=OPERATOR, simulated=self.simulated)
        sent = invitations.send_invitations([user for user in users if not user.simulated])
        links: dict[str, dict[str, Any]] = {user.username: {} for user in users}
        links |= invitations.invitations_as_json(sent)
        for refusal in parsed.refusals:
            self.tell(str(refusal))
        if parsed.refusals:
            self.tell("No account was created.")
        report = roster.import_report(parsed, links)
        return {**report, "dry_run": self.dry_run, "failed": len(parsed.refusals)}


class ChangePassword(Action):
    """Set an account's password, as an admin does on its page: the change is recorded, and its API
    tokens are revoked.
    """

    username: Positional[str]

    def perform(self) -> dict[str, Any]:
        user = account_named(self.username)
        try:
            password = getpass("New password: ")
            again = getpass("New password (again): ")
        except EOFError:
            raise CommandError("The input ended. Nothing was changed.") from None
        if again != password:
            raise CommandError("The two passwords differ. Nothing was changed.")
        accounts.set_password(user.pk, password, actor=OPERATOR)
        return {"username": user.username, "password": "changed"}


class TakeSecondFactor(Action):
    """Remove a lost second factor, as an admin does on the person's page."""

    has_json = False

    username: Positional[str]

    def perform(self) -> str:
        user = account_named(self.username)
        accounts.remove_second_factor(user.pk, actor=OPERATOR)
        return f"{user.username} no longer has a second factor."
