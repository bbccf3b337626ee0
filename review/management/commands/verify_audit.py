"""verify_audit [--anchor [cases:|accounts:]SEQUENCE:HASH]..."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from review.audit import verification
from review.audit.trail import EVENTS, PERSON_EVENTS


def _anchor(text: str) -> tuple[str, int, str]:
    try:
        return verification.parse_anchor(text)
    except ValueError:
        message = "must be [cases:|accounts:]SEQUENCE:HASH, as shown by an earlier check or an export"
        raise ArgumentTypeError(message) from None


class Command(BaseCommand):
    help = "Check that no event or review was altered, removed, exchanged, added or cut off. Exit code 1 if one was."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--anchor",
            type=_anchor,
            action="append",
            default=[],
            metavar="[cases:|accounts:]SEQUENCE:HASH",
            help="a hash noted earlier outside the database, of either chain; repeat for several",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        faults: list[dict[str, Any]] = []

        def report(fault: verification.AuditFault) -> None:
            if options["json"]:
                faults.append({**asdict(fault), "said": str(fault)})
            else:
                self.stdout.write(str(fault))

        anchors: dict[str, dict[int, str]] = {EVENTS: {}, PERSON_EVENTS: {}}
        for chain, sequence, hash_ in options["anchor"]:
            anchors[chain][sequence] = hash_
        accounts_end = verification.end_of(PERSON_EVENTS)  # what is added meanwhile is left to the next check
        audit = verification.run(verification.create_check(None).pk, anchors=anchors, on_fault=report)
        not_covered = verification.not_covered()
        if options["json"]:
            names = ("checked", "reviews", "unsealed", "sequence", "hash")
            counts = {name: getattr(audit, name) for name in names}
            ends = {"accounts": accounts_end, "not_covered": not_covered}
            self.stdout.write(json.dumps({"intact": not audit.faults_count, **counts, **ends, "faults": faults}))
        else:
            self.stdout.write(
                f"{audit.checked} events and {audit.reviews} reviews checked: {audit.faults_count} faults."
            )
            if audit.unsealed:
                self.stdout.write(f"{audit.unsealed} reviews are older than the chain and cannot be checked.")
            if not_covered:
                self.stdout.write(f"Not covered, frozen before freezes recorded checksums: {', '.join(not_covered)}")
            self.stdout.write(f"The audit trail ends at {audit.sequence}:{audit.hash}")
            self.stdout.write(f"The chain of accounts ends at accounts:{accounts_end}")
        if audit.faults_count:
            sys.exit(1)
