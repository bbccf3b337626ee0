"""What the management commands share: one JSON object or readable lines, honest exit codes, and waiting for work."""

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from generation import queries
from generation.errors import GenerationError
from generation.jobs import Job
from review.errors import ReviewError

POLL = 0.3  # seconds


class Step(BaseCommand):
    """A command that does one step and returns what came of it.

    Subclasses define `add_options` and `step`. With ``--json`` the returned object is printed as one line of JSON and nothing
    else goes to standard output; an error of ours is one sentence on standard error and exit code 1.
    """

    expected: tuple[type[Exception], ...] = (GenerationError, ReviewError)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        self.add_options(parser)

    def add_options(self, parser: ArgumentParser) -> None:
        """The command's own arguments."""

    def step(self, **options: Any) -> dict[str, Any]:
        """Do it; a key 'failed' that is not zero makes the exit code 1."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = self.step(**options)
        except self.expected as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(_sentences(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False, default=str))
        else:
            for key, value in result.items():
                self.stdout.write(f"{key}: {_readable(value)}")
        if result.get("failed"):
            sys.exit(1)


def _sentences(error: ValidationError) -> str:
    """What is wrong, field by field where the error names them."""
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return "; ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())


def _readable(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"\n  {_readable(entry)}" for entry in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_readable(entry)}" for key, entry in value.items())
    return str(value)


def add_budget(parser: ArgumentParser) -> None:
    """The options of a command that launches a job."""
    parser.add_argument("--budget", type=Decimal, metavar="MONEY", help="start no call once so much is spent")
    parser.add_argument("--budget-calls", type=int, metavar="N", help="make no more than N calls")
    parser.add_argument("--fresh", action="store_true", help="ask anew what has been paid for already")


def paused(job: Job) -> int:
    """1 where a job did not go on by itself, for the exit code."""
    return int(job.status == Job.Status.PAUSED)


def wait(step: Step, *, is_over: Callable[[], bool], work: Callable[[], object], percent: Callable[[], int]) -> None:
    """Follow work to its end. Where no worker is alive, `work` does it in this process."""
    shown = -1
    while not is_over():
        if (now := percent()) != shown:
            shown = now
            step.stderr.write(f"{shown} %")
        if queries.worker_lives():
            time.sleep(POLL)
        else:
            work()
            if not is_over():
                time.sleep(POLL)  # rows held by a process that died come back when their lease runs out
