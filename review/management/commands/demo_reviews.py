"""`demo_reviews`: simulated physicians work the queue."""

from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from review.management.simulated_physicians import work_queue
from review.management.step_command import StepCommand
from review.models import Case, User
from review.rules.permissions import UserRole
from review.rules.state_machine import FINAL


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise ArgumentTypeError("must be a number from 0 to 1")
    return share


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


class Command(StepCommand):
    help = (
        "Review the queue of simulated cases as simulated physicians, in the accounts that the demo created for them."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seed", type=int, required=True, help="the same seed gives the same reviews")
        parser.add_argument("--limit", type=_count, help="stop after this many reviews (default: when no case is left)")
        parser.add_argument(
            "--dissent",
            type=_share,
            default=0.15,
            help="probability that a physician judges differently from the others",
        )
        parser.add_argument("--reject", type=_share, default=0.1, help="share of cases that deserve rejection")

    def step(self, **options: Any) -> dict[str, Any]:
        accounts = User.objects.filter(role=UserRole.PHYSICIAN, is_active=True, simulated=True)
        physicians = list(accounts.order_by("username"))
        if not physicians:
            # A script must never review in a person's name.
            raise CommandError("There are no accounts of simulated physicians. The demo creates some (load_demo).")
        if Case.objects.filter(simulated=False).exclude(state__in=FINAL).exists():
            # Their reviews would end up in a release that claims to be reviewed by physicians.
            raise CommandError(
                "The queue contains cases made by real models. Simulated physicians do not review those."
            )
        summary = work_queue(
            options["seed"], options["limit"], physicians, dissent=options["dissent"], reject=options["reject"]
        )
        return asdict(summary)
