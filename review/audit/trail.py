"""The only writer of the audit trail.

Events are written at the end of each transaction, each linked to the one before it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.core.cache import cache
from django.db import transaction
from django.db.models import Max, QuerySet, Subquery
from django.utils import timezone

from review.audit import chain_entries
from review.errors import AccessChanged, TooManyOwnActs
from review.models import Case, Chained, ChainHead, Event, PersonEvent, Review, User
from review.rules.permissions import Operator

Actor = User | Operator | None
DAY = timedelta(days=1)
OWN_ACTS = 500  # of one kind in a day, which people do to their own account or reviews
LOOK = timedelta(hours=1)  # within which looking at the same again is one event

_pending: ContextVar[list[Event | PersonEvent] | None] = ContextVar("events of the transaction", default=None)


@contextmanager
def recording_events() -> Iterator[None]:
    """Open a transaction whose events are written last, right before it commits; also a decorator.

    Use it instead of `transaction.atomic` around everything that calls `record`. Nested calls are
    savepoints, and the outermost one writes. All writers queue for the lock on the end of the
    chain, so it has to be the last lock that a transaction takes: a writer that held it while
    waiting for another row would deadlock with the holder of that row.
    """
    outer = _pending.get()
    if outer is not None:
        before = len(outer)
        try:
            with transaction.atomic():
                yield
        except BaseException:
            del outer[before:]  # drop the events of what was rolled back
            raise
        return
    events: list[Event | PersonEvent] = []
    with transaction.atomic():
        token = _pending.set(events)
        try:
            yield
        finally:
            _pending.reset(token)
        _write(EVENTS, Event, [event for event in events if isinstance(event, Event)])
        _write(PERSON_EVENTS, PersonEvent, [event for event in events if isinstance(event, PersonEvent)])


def record(case: Case, kind: Event.Kind, actor: Actor, **data: Any) -> None:
    """Add an event to the trail of `case`. Raises RuntimeError outside `recording_events`.

    `data` is published with a release. It may name a person only under a key in
    `chain_entries.PEOPLE` (as primary key of the account) and hold typed text only under a key in
    `chain_entries.SEALED`; these are published as pseudonyms and digests. Values are integers,
    text, and lists and mappings of them, but no fractions: databases write those differently.
    """
    record_at(timezone.now(), case, kind, actor, **data)


def record_at(at: datetime, case: Case, kind: Event.Kind, actor: Actor, **data: Any) -> None:
    """Like `record`, for an event that happened earlier, before it belonged to this case."""
    actor_id = None
    if actor:
        actor_id = actor.pk
    _add(Event(case=case, kind=kind, actor_id=actor_id, at=at, data=data))


def record_person(person: User | None, kind: PersonEvent.Kind, actor: Actor, **data: Any) -> None:
    """Add an event to the trail of an account, or of the site (None).

    Raises RuntimeError outside `recording_events`.
    """
    by = None
    if actor:
        by = actor.pk
    _add(PersonEvent(person=person, kind=kind, actor_id=by, at=timezone.now(), data=data))


def record_own_act(user: User, kind: PersonEvent.Kind, **data: Any) -> None:
    """Add an event of what people do to their own account. Raises TooManyOwnActs."""
    require_own_act(user, kind)
    record_person(user, kind, user, **data)


def require_own_act(user: User, kind: Event.Kind | PersonEvent.Kind) -> None:
    """Raise TooManyOwnActs if this person has done so too often today.

    An event of a case counts wherever it was; one of an account, in the person's own. The lock
    holds up the person's others: two at once must not both be the last. Raises AccessChanged, too.
    """
    lock_own_account(user)
    done: QuerySet[Any] = Event.objects.filter(actor=user)
    if isinstance(kind, PersonEvent.Kind):
        done = PersonEvent.objects.filter(person=user, actor=user)
    if done.filter(kind=kind, at__gt=timezone.now() - DAY).count() >= OWN_ACTS:
        raise TooManyOwnActs


def lock_own_account(user: User) -> User:
    """The person's account, locked until the transaction ends.

    Raises AccessChanged if their access has ended since `user` was loaded: while this waited, an
    admin may have closed the account or given it another password or role.
    """
    me = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if me.get_session_auth_hash() != user.get_session_auth_hash() or not me.is_active:
        raise AccessChanged
    return me


def record_read(reader: User, case: Case) -> None:
    """Record that a person opened a case. For its reviewers, their claims already record this."""
    record_look(PersonEvent.Kind.READ, reader, case=case.pk)


def record_look(kind: PersonEvent.Kind, reader: Actor, **data: Any) -> None:
    """Record what a person looked at; once an hour, so that reloading adds no rows without end."""
    by = None
    if reader:
        by = reader.pk
    latest = PersonEvent.objects.filter(kind=kind, actor_id=by, person=None)
    for name, value in data.items():  # not all data at once: a checkpoint also holds an anchor
        latest = latest.filter(**{f"data__{name}": value})
    recent = latest.filter(at__gt=timezone.now() - LOOK)
    if recent.exists():
        return
    look = sha256(repr((kind.value, by, sorted(data.items()))).encode()).hexdigest()
    with recording_events():
        # Of two at once, the key lets one in, and the other waits for its event.
        is_first = cache.add(f"look-{look}", True, LOOK.total_seconds())
        if is_first or not recent.exists():
            record_person(None, kind, reader, **data)


def _add(event: Event | PersonEvent) -> None:
    events = _pending.get()
    if events is None:
        raise RuntimeError(
            "Events are recorded inside `with review.audit.trail.recording_events():`, instead of transaction.atomic()."
        )
    events.append(event)


def record_submitted(review: Review) -> None:
    """Record the submission of a review, with its digest and how it was signed."""
    version = None
    if review.guideline:
        version = review.guideline.version
    submission = {"role": review.role, "phase": review.phase, "review": review.pk, "meaning": review.meaning}
    event = Event(
        case=review.case,
        kind=Event.Kind.SUBMITTED,
        actor_id=review.physician_id,
        at=timezone.now(),
        data={**submission, "guideline": version},
    )
    event.sealed = review  # type: ignore[attr-defined]  # its digest needs the chain's key: see `_write`
    _add(event)


EVENTS, PERSON_EVENTS = "event", "personevent"
CHAIN_NAMES = {EVENTS: "cases", PERSON_EVENTS: "accounts"}
OTHER_CHAIN = {EVENTS: PERSON_EVENTS, PERSON_EVENTS: EVENTS}
# Events that record where the other chain ended: if one chain is cut, the other shows it.
CHECKPOINTS = {
    EVENTS: (Event.Kind.OPENED, Event.Kind.SUBMITTED),
    PERSON_EVENTS: (PersonEvent.Kind.SIGNED_IN, PersonEvent.Kind.FREEZE, PersonEvent.Kind.EXPORTED),
}
ANCHOR = "anchor"  # its key in the event's data


def anchor_of(chain: str) -> str:
    """Where a chain ends now, as ``cases:SEQUENCE:HASH``; empty if it has no events or no head."""
    head = ChainHead.objects.filter(pk=chain).first()
    if head is None:
        return ""
    return _anchor(chain, head.sequence, head.hash)


def _anchor(chain: str, sequence: int | None, digest: str | None) -> str:
    if not sequence:
        return ""
    return f"{CHAIN_NAMES[chain]}:{sequence}:{digest}"


def _locked_head(name: str, events: Sequence[Event | PersonEvent]) -> ChainHead:
    """The end of a chain, locked.

    The first checkpoint among the events, if there is one, gets the end of the other chain. Without
    a lock: a committed end stays in its chain, and two locks could deadlock.
    """
    heads = ChainHead.objects.select_for_update()
    checkpoints = [event for event in events if event.kind in CHECKPOINTS[name]]
    if not checkpoints:
        return heads.get(pk=name)
    other = ChainHead.objects.filter(pk=OTHER_CHAIN[name])
    other_sequence, other_hash = Subquery(other.values("sequence")), Subquery(other.values("hash"))
    head = heads.annotate(other_sequence=other_sequence, other_hash=other_hash).get(pk=name)
    if anchor := _anchor(OTHER_CHAIN[name], head.other_sequence, head.other_hash):
        checkpoints[0].data[ANCHOR] = anchor
    return head


def _write(name: str, model: type[Chained], events: Sequence[Event | PersonEvent]) -> None:
    """Append events to the chain of this name, and move its head."""
    if not events:
        return
    head = _locked_head(name, events)
    cases = {event.case_id for event in events if isinstance(event, Event)}
    last = Event.objects.filter(case__in=cases).order_by().values_list("case").annotate(Max("number"))
    numbers: dict[int, int] = {}
    if cases:
        numbers = dict(last)
    for event in events:
        if (review := getattr(event, "sealed", None)) is not None:
            event.data["digest"] = chain_entries.review_digest(review, head.key)
        if isinstance(event, Event):
            event.number = numbers[event.case_id] = numbers.get(event.case_id, 0) + 1
        event.sequence, event.previous = head.sequence + 1, head.hash
        event.hash = chain_entries.digest(chain_entries.entry(event, head.key))
        head.sequence, head.hash = event.sequence, event.hash
    model._default_manager.bulk_create(events)
    ChainHead.objects.filter(pk=name).update(sequence=head.sequence, hash=head.hash)
