"""The ledger of one lane: its writes and reservations, each with those of other rows."""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from generation.engine import ledger
from generation.engine.group_commit import GroupCommit, with_database_retries
from generation.llm.admission_control import ENDPOINT_ERRORS
from generation.llm.errors import (
    BadRequest,
    BudgetSpent,
    ContextTooLong,
    LaneOver,
    LLMError,
    NotReached,
    UnexpectedError,
)
from generation.llm.ledger_interface import Ledger, PaidReply
from generation.llm.request_body import Format
from generation.llm.types import Attempt
from generation.models import Call, Endpoint
from generation.models.jobs import Job
from generation.models.work import Work

log = logging.getLogger(__name__)

# Errors that count against a request.
COUNTED_ERRORS = [kind.__name__ for kind in ENDPOINT_ERRORS if kind is not NotReached]
REFUSALS = (BadRequest.__name__, ContextTooLong.__name__)


class LaneLedger:
    """Gives out the ledgers of a lane's rows."""

    def __init__(self, job: Job, lane: int, group: GroupCommit) -> None:
        self._job, self._lane, self._group = job, lane, group
        self._attempts_in_write: set[uuid.UUID] = set()  # ids
        self._formats: dict[tuple[int, str], asyncio.Future[Format]] = {}

    def of_row(self, row: Work, endpoint: Endpoint, lines: list[int]) -> Ledger:
        """The ledger for a row's calls to an endpoint; appends the keys of its lines to `lines`."""
        subject = row.subject
        repeated = row.tries > 1

        async def write(attempt: Attempt) -> None:
            line = ledger.LedgerLine(attempt, endpoint, subject, repeated)
            try:
                call: Call = await self._group(self._write, line)
            except (OperationalError, InterfaceError, LLMError):
                raise
            except Exception as failure:  # its content cannot be stored, but the call was made and paid for
                log.exception("a ledger line could not be written")
                error = UnexpectedError(f"Its line in the ledger could not be written ({type(failure).__name__}).")
                await self._group(self._write, replace(line, attempt=ledger.without_content(attempt, error)))
                raise error from None
            lines.append(call.pk)

        async def find(identity: str) -> Sequence[PaidReply]:
            replies: list[PaidReply] = await self._group(self._find, (identity, subject))
            return replies

        async def failures(identity: str) -> int:
            if not repeated:  # only a row that was cut short or lost can have any
                return 0
            counted = Call.objects.filter(
                job=self._job.pk, subject=subject, identity=identity, error__in=COUNTED_ERRORS
            )
            return await sync_to_async(with_database_retries)(counted.count)

        async def refused(identity: str) -> bool:
            refusals = Call.objects.filter(job=self._job.pk, subject=subject, identity=identity, error__in=REFUSALS)
            return await sync_to_async(with_database_retries)(refusals.exists)

        async def last_format(prompt: str) -> Format:
            key = endpoint.pk, prompt
            if key not in self._formats:  # once per lane
                found = sync_to_async(with_database_retries)(ledger.last_format, endpoint, prompt)
                self._formats[key] = asyncio.ensure_future(found)
            return await asyncio.shield(self._formats[key])

        return Ledger(write, self._check, find, failures, last_format, refused)

    async def _check(self) -> None:
        error: LLMError | None = await self._group(self._reserve, None)
        if error is not None:
            raise error

    def _reserve(self, requests: list[None]) -> list[LLMError | None]:
        granted = ledger.reserve(self._job, len(requests), lane=self._lane, now=timezone.now())
        if granted is None:
            return [LaneOver() for _ in requests]
        refused = len(requests) - granted
        return [None] * granted + [BudgetSpent() for _ in range(refused)]

    def _write(self, lines: list[ledger.LedgerLine]) -> list[Call]:
        ids = {line.attempt.id for line in lines}
        again = not ids.isdisjoint(self._attempts_in_write)
        if not again:  # the earlier ones are committed, or will not be retried
            self._attempts_in_write = ids
        return ledger.write(self._job, lines, lane=self._lane, again=again)

    def _find(self, keys: list[tuple[str, str]]) -> list[list[PaidReply]]:
        replies = ledger.paid_replies(self._job, keys)
        return [replies[key] for key in keys]
