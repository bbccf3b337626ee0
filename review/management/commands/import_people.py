"""import_people FILE.csv [--dry-run] [--json]"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from review.errors import RosterRefused
from review.people import accounts, invitations, roster
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = (
        "Make the accounts that a CSV file lists and e-mail each person an invitation link. Without e-mail it is printed "
        f"once. If one row is refused, no account is made. Columns: {', '.join(roster.COLUMNS)}; only name is needed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--dry-run", action="store_true", help="only show what would happen; create no account")
        parser.add_argument(
            "--simulated",
            action="store_true",
            help="accounts of simulated physicians, for `demo_reviews`: nobody is invited, and nobody can sign in",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with options["file"].open("rb") as file:
                parsed = roster.read_roster(options["file"].name, file.read(roster.MAX_BYTES + 1))
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from None
        links: dict[str, dict[str, Any]] = {}
        if not options["dry_run"] and not parsed.refusals:
            try:
                users = accounts.import_people(parsed, actor=OPERATOR, simulated=options["simulated"])
            except RosterRefused as error:
                raise CommandError(str(error)) from None
            links = {user.username: {} for user in users}
            if not options["simulated"]:
                links = invitations.invitations_as_json(invitations.send_invitations(users))
        result = {**roster.import_report(parsed, links), "dry_run": options["dry_run"]}
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
        else:
            self._print_report(result)
        for refusal in parsed.refusals:
            self.stderr.write(str(refusal))
        if parsed.refusals:
            self.stderr.write("No account was created.")
            sys.exit(1)

    def _print_report(self, result: dict[str, Any]) -> None:
        for person in result["people"]:
            details = [person["username"], person["role"], *person["specialties"], *person["languages"]]
            self.stdout.write(
                f"row {person['row']}: {person['name']} ({', '.join(details)}) "
                f"{'e-mailed' if person.get('emailed') else person.get('link', '')}".rstrip()
            )
        count = len(result["people"])
        self.stdout.write(f"to add: {count}" if result["dry_run"] else f"added: {result['added']} of {count}")
