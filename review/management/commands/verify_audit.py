"""verify_audit [--anchor SEQUENCE:HASH]..."""

import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from review.audit import verification


def _anchor(text: str) -> tuple[int, str]:
    if not (match := re.fullmatch(r"([1-9]\d{0,17}):([0-9a-f]{64})", text)):
        raise ArgumentTypeError("must be SEQUENCE:HASH, as shown by an earlier check or an export")
    return int(match[1]), match[2]


class Command(BaseCommand):
    help = "Check that no event or review was altered, removed, exchanged, added or cut off. Exit code 1 if one was."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--anchor",
            type=_anchor,
            action="append",
            default=[],
            metavar="SEQUENCE:HASH",
            help="a hash noted earlier outside the database; repeat for several",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        faults: list[dict[str, Any]] = []

        def report(fault: verification.AuditFault) -> None:
            if options["json"]:
                faults.append({**asdict(fault), "said": str(fault)})
            else:
                self.stdout.write(str(fault))

        audit = verification.run(verification.create_check(None).pk, anchors=dict(options["anchor"]), on_fault=report)
        if options["json"]:
            names = ("checked", "reviews", "unsealed", "sequence", "hash")
            counts = {name: getattr(audit, name) for name in names}
            self.stdout.write(json.dumps({"intact": not audit.faults_count, **counts, "faults": faults}))
        else:
            self.stdout.write(
                f"{audit.checked} events and {audit.reviews} reviews checked: {audit.faults_count} faults."
            )
            if audit.unsealed:
                self.stdout.write(f"{audit.unsealed} reviews are older than the chain and cannot be checked.")
            self.stdout.write(f"The audit trail ends at {audit.sequence}:{audit.hash}")
        if audit.faults_count:
            sys.exit(1)
