"""Base of the management commands: JSON or readable output, and exit codes."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from review.errors import ShownError
from review.models import User
from review.people.roster import sentences


class StepCommand(BaseCommand):
    """A command that performs one step and returns its result.

    Subclasses define `add_options` and `step`. With ``--json`` the returned object is printed as
    one line of JSON, and nothing else goes to standard output. An error of ours is one sentence on
    standard error and exit code 1.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        self.add_options(parser)

    def add_options(self, parser: ArgumentParser) -> None:
        """The command's own arguments."""

    def step(self, **options: Any) -> dict[str, Any]:
        """Perform the step. If 'failed' in the result is not zero, the exit code is 1."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = self.step(**options)
        except ShownError as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError("; ".join(sentences(error))) from error
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False, default=str))
        else:
            for key, value in result.items():
                self.stdout.write(f"{key}: {readable(value)}")
        if result.get("failed"):
            sys.exit(1)


def account_named(username: str) -> User:
    """The account with this name. Raises CommandError."""
    user = User.objects.filter(username=username).first()
    if user is None:
        raise CommandError(f"There is no account {username}.")
    return user


def readable(value: Any) -> str:
    """Format a value for the output of a command."""
    if isinstance(value, list):
        return "".join(f"\n  {readable(entry)}" for entry in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {readable(entry)}" for key, entry in value.items())
    return str(value)
