"""The trail is written here and nowhere else: at the end of each transaction, each event tied to the one before it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from review.audit import chain_entries
from review.common import bulk_rows, sql
from review.models import Case, ChainHead, Event, PersonEvent, Review, User

_pending: ContextVar[list[Event | PersonEvent] | None] = ContextVar("events of the transaction", default=None)


@contextmanager
def recording_events() -> Iterator[None]:
    """A transaction whose events are written as the last thing before it commits; also a decorator.

    It takes the place of `transaction.atomic` around everything that calls `record`. Inside another one it is a savepoint,
    and the outermost writes: all writers queue up for the end of the chain, so it has to be the last lock that a transaction
    takes. Taken earlier, and then waiting for a row, it would be in a deadlock with the holder of that row.
    """
    outer = _pending.get()
    if outer is not None:
        before = len(outer)
        try:
            with transaction.atomic():
                yield
        except BaseException:
            del outer[before:]  # what is rolled back did not happen
            raise
        return
    events: list[Event | PersonEvent] = []
    with transaction.atomic():
        token = _pending.set(events)
        try:
            yield
        finally:
            _pending.reset(token)
        _write([event for event in events if isinstance(event, Event)])
        _write_person_events([event for event in events if isinstance(event, PersonEvent)])


def record(case: Case, kind: Event.Kind, actor: User | None, **data: Any) -> None:
    """One line more in the trail of `case`. Raises RuntimeError outside of `recording_events`.

    `data` is published with a release, so a person stands in it only under one of the keys `chain_entries.PEOPLE` (as primary
    key of the account) and what somebody has typed only under one of `chain_entries.SEALED`: there, a pseudonym and a digest
    take their places. Whole numbers, text, lists and mappings of them; no fractions, which each database writes in its own way.
    """
    record_at(timezone.now(), case, kind, actor, **data)


def record_at(at: datetime, case: Case, kind: Event.Kind, actor: User | None, **data: Any) -> None:
    """The same of what happened before now, and was not of this case yet."""
    _add(Event(case=case, kind=kind, actor=actor, at=at, data=data))


def record_person(person: User, kind: PersonEvent.Kind, actor: User | None, **data: Any) -> None:
    """One line more in the trail of an account. Raises RuntimeError outside of `recording_events`."""
    _add(PersonEvent(person=person, kind=kind, actor=actor, at=timezone.now(), data=data))


def _add(event: Event | PersonEvent) -> None:
    events = _pending.get()
    if events is None:
        raise RuntimeError(
            "Events are recorded inside `with review.audit.trail.recording_events():`, instead of transaction.atomic()."
        )
    events.append(event)


def record_submitted(review: Review, key: str) -> None:
    """The event of a submission: it holds the digest of the review, and how it was signed off. `key`: of the chain of events,
    which never changes."""
    record(
        review.case,
        Event.Kind.SUBMITTED,
        review.physician,
        role=review.role,
        phase=review.phase,
        review=review.pk,
        meaning=review.meaning,
        guideline=review.guideline.version if review.guideline else None,
        digest=digest_of(review, key),
    )


def digest_of(review: Review, key: str) -> str:
    """The digest of a stored review; `review.case` is read for its lineage. `key`: of the chain of events."""
    return chain_entries.review_digest(
        physician=chain_entries.pseudonym(key, review.case.lineage, review.physician_id),
        role=review.role,
        phase=review.phase,
        attempt=review.attempt,
        verdict=review.verdict,
        inadequate=review.inadequate,
        answers=review.answers,
        submitted_at=review.submitted_at,
        signed_as=review.signed_as,
        meaning=review.meaning,
        guideline=review.guideline_id,
    )


EVENTS, PERSON_EVENTS = "event", "personevent"


def _write(events: Sequence[Event]) -> None:
    if not events:
        return
    cases = {event.case_id for event in events}
    head, numbers = _end_of_chain(min(cases))
    numbers |= _last_numbers(cases - numbers.keys())
    for event in events:
        event.number = numbers[event.case_id] = numbers.get(event.case_id, 0) + 1
        about: dict[str, Any] = {"sample": event.case.lineage, "version": event.case.version, "number": event.number}
        _chain(event, head, partial(chain_entries.entry, **about))
    if len(events) <= FEW:
        sql.insert_and_update(events, head, "sequence", "hash")
    else:
        bulk_rows.store(events)
        sql.update(head, "sequence", "hash")


def _chain(event: Event | PersonEvent, head: ChainHead, entry: Callable[..., dict[str, Any]]) -> None:
    """Put an event at the end of a chain. `entry`: what is hashed of it, once it has its place."""
    event.sequence, event.previous = head.sequence + 1, head.hash
    place = {"key": head.key, "sequence": event.sequence, "previous": event.previous}
    event.hash = chain_entries.digest(
        entry(**place, kind=event.kind, actor=event.actor_id, at=event.at, data=event.data)
    )
    head.sequence, head.hash = event.sequence, event.hash


FEW = 20  # events that one statement takes as they are
_HEAD = """SELECT {h}, (SELECT MAX(sequence) FROM review_event), (SELECT MAX(number) FROM review_event WHERE case_id = %s)
FROM review_chainhead h WHERE h.name = 'event'"""


def _end_of_chain(case: int) -> tuple[ChainHead, dict[int, int]]:
    """The end of the chain of events, locked, and the number of the last event of `case`, if it is certain.

    Who has waited for the lock sees the end as it is by then, and the events as they were before: then the number is not known.
    """
    found = sql.instances(_HEAD + sql.locks("h"), (case,), h=ChainHead)
    if not found:
        raise ChainHead.DoesNotExist
    head, sequence, number = found[0]
    return head, {case: number or 0} if (sequence or 0) == head.sequence else {}


def _last_numbers(cases: Collection[int]) -> dict[int, int]:
    """Of the last event in the trail of each case that has one."""
    if not cases:
        return {}
    found = Event.objects.filter(case__in=cases).order_by().values_list("case").annotate(Max("number"))
    return dict(found)


def _write_person_events(events: Sequence[PersonEvent]) -> None:
    if not events:
        return
    head = ChainHead.objects.select_for_update().get(pk=PERSON_EVENTS)
    for event in events:
        _chain(event, head, partial(chain_entries.person_entry, person=event.person_id))
    PersonEvent.objects.bulk_create(events)
    head.save(update_fields=["sequence", "hash"])
