"""The actions that archive and erase."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from django.core.management.base import CommandError
from django.http import Http404
from pydantic import Field

from generation.batches.kind import BATCHES
from generation.removal import erasure, queries, services
from generation.removal.erasure import Erasure
from generation.sources import queries as sources_queries
from review.common.commands import Action, Positional, Shell


class Archive(Action):
    """Have lists and choices leave out a source, a record or a batch. It stays readable; --restore
    takes it back.
    """

    kind: Annotated[str, Shell(positional=True, choices=list(queries.MODELS))]
    number: Positional[int]
    restore: bool = False

    def perform(self) -> dict[str, Any]:
        change = services.archive
        if self.restore:
            change = services.restore
        try:
            row = change(self.kind, self.number, actor=None)
        except Http404:
            raise CommandError(f"There is no {self.kind} {self.number}.") from None
        return {self.kind: str(row), "archived": row.archived_at is not None}


class Erase(Action):
    """Erase records that should not have been imported, a whole source, or what a batch made, with
    all that was made of them: rows, ledger, queue. Runs as the role that owns the tables. What is
    released cannot be erased.
    """

    source: Annotated[str | None, Shell(positional=True, metavar="SOURCE")] = None
    records: Annotated[Sequence[str], Shell(positional=True, metavar="ID")] = Field(
        (), description="the id of a record in its source"
    )
    all: bool = Field(False, description="the source with all its records")
    batch: Annotated[int | None, Shell(metavar="NUMBER")] = Field(
        None, description="what this batch made; its records stay"
    )
    reason: str = Field(description="kept in the audit trail: no patient's text")

    def perform(self) -> dict[str, Any]:
        return asdict(self._erase())

    def _erase(self) -> Erasure:
        if self.batch is not None:
            return erasure.erase_batch(BATCHES.get(self.batch), reason=self.reason)
        if self.source is None or bool(self.records) == self.all:
            raise CommandError("Give SOURCE with IDs or with --all, or --batch.")
        source = sources_queries.source(self.source)
        if self.all:
            return erasure.erase_source(
                source, reason=self.reason, tell=lambda done: self.tell(f"{done} records erased")
            )
        return erasure.erase_records(source, list(self.records), reason=self.reason)
