"""reopen_samples USERNAME --reason TEXT"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from generation.outcomes import reopening
from review.management.step_command import StepCommand
from review.models import User
from review.rules.permissions import OPERATOR, UserRole


class Command(StepCommand):
    help = "Have approved samples that a physician reviewed, and that are in no release, reviewed again by others."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--reason", required=True)

    def step(self, **options: Any) -> dict[str, Any]:
        person = User.objects.filter(username=options["username"], role=UserRole.PHYSICIAN).first()
        if person is None:
            raise CommandError("There is no physician with this name.")
        reopened = asdict(reopening.reopen(person.pk, actor=OPERATOR, reason=options["reason"]))
        if any(reopened.values()):
            failed = {}
        else:
            failed = {"failed": "this physician reviewed no approved sample"}
        return {**reopened, **failed}
