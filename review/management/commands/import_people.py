"""import_people FILE.csv [--dry-run] [--json]"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from review.management.step_command import StepCommand
from review.models import User
from review.people import accounts, invitations, roster
from review.rules.permissions import OPERATOR


class Command(StepCommand):
    help = (
        "Make the accounts that a CSV file lists and e-mail each person an invitation link. Without e-mail it is printed "
        f"once. If one row is refused, no account is made. Columns: {', '.join(roster.COLUMNS)}; only name is needed."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--dry-run", action="store_true", help="only show what would happen; create no account")
        parser.add_argument(
            "--simulated",
            action="store_true",
            help="accounts of simulated physicians, for `demo_reviews`: nobody is invited, and nobody can sign in",
        )

    def step(self, **options: Any) -> dict[str, Any]:
        try:
            with options["file"].open("rb") as file:
                parsed = roster.read_roster(options["file"].name, file.read(roster.MAX_BYTES + 1))
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from None
        users: list[User] = []
        if not options["dry_run"] and not parsed.refusals:
            users = accounts.import_people(parsed, actor=OPERATOR, simulated=options["simulated"])
        sent = invitations.send_invitations([user for user in users if not user.simulated])
        links: dict[str, dict[str, Any]] = {user.username: {} for user in users}
        links |= invitations.invitations_as_json(sent)
        for refusal in parsed.refusals:
            self.stderr.write(str(refusal))
        if parsed.refusals:
            self.stderr.write("No account was created.")
        report = roster.import_report(parsed, links)
        return {**report, "dry_run": options["dry_run"], "failed": len(parsed.refusals)}
