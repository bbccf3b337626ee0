"""The action of the simulated physicians."""

from argparse import ArgumentTypeError
from dataclasses import asdict
from typing import Annotated, Any

from django.core.management.base import CommandError
from pydantic import Field

from review.common.commands import Action, Shell
from review.management.simulated_physicians import work_queue
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


class DemoReviews(Action):
    """Review the queue of simulated cases as simulated physicians, in the accounts that the demo
    created for them.
    """

    seed: int = Field(description="the same seed gives the same reviews")
    limit: Annotated[int | None, Shell(parse=_count)] = Field(
        None, description="stop after this many reviews (default: when no case is left)"
    )
    dissent: Annotated[float, Shell(parse=_share)] = Field(
        0.15, description="probability that a physician judges differently from the others"
    )
    reject: Annotated[float, Shell(parse=_share)] = Field(0.1, description="share of cases that deserve rejection")

    def perform(self) -> dict[str, Any]:
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
        return asdict(work_queue(self.seed, self.limit, physicians, dissent=self.dissent, reject=self.reject))
