"""Verify the audit trail. `review.audit.trail` writes it; docs/audit.md describes it."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet, Subquery, TextChoices
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from review import registrations
from review.audit import accounts, acts, cases, chain_entries
from review.audit.trail import ANCHOR, CHAIN_NAMES, CHECKPOINTS, EVENTS, OTHER_CHAIN, PERSON_EVENTS, anchor_of
from review.common.waking import wake_after_commit
from review.models import Audit, Case, Chained, ChainHead, Event, PersonEvent, Review, User
from review.rules.limits import MAX_ID
from review.rules.permissions import Can, require
from review.rules.shown_fields import shown

CHUNK = 1000  # rows in memory at a time
HEARTBEAT_ROWS = 10_000  # rows between two heartbeats
MAX_STORED_FAULTS = 200  # faults stored in full; `faults_count` counts all
SUBMITTED = Event.Kind.SUBMITTED
MODELS: dict[str, type[Chained]] = {EVENTS: Event, PERSON_EVENTS: PersonEvent}
ANCHOR_FORMAT = r"^(?:(cases|accounts):)?([1-9][0-9]{0,17}):([0-9a-f]{64})\Z"  # without a name: of cases
WORKER_TIMEOUT = timedelta(minutes=2)  # a check without a heartbeat for so long has died with its worker


class FaultCode(TextChoices):
    """The kinds of fault that a check can find, with what each says of its place."""

    ALTERED = "altered", _("altered: the row no longer matches the hash recorded when it was written")
    MISSING = "missing", _("missing: the row is not in the table")
    MOVED = "moved", _("moved: the row was originally number %(detail)s")
    EXCHANGED = "exchanged", _("swapped: the row has a lower ID than the row before it")
    REPLACED = "replaced", _("replaced: the next row does not link to this one")
    INSERTED = "inserted", _("inserted: the row is not part of the chain")
    CUT_OFF = "cut-off", _("cut off: the chain originally continued to here")
    NO_END = "no-end", _("the record of the end of the chain is missing or does not match its last row")
    OTHER_ANCHOR = "other-anchor", _("the hash differs from the one stored elsewhere: the chain was rewritten")
    OTHER_CHAIN = (
        "other-chain",
        _("cut off or rewritten: event %(detail)s of the other chain recorded a different event here"),
    )
    REVIEW_ALTERED = "review-altered", _("review %(detail)s was altered after it was submitted")
    REVIEW_MISSING = (
        "review-missing",
        _("review %(detail)s is missing, or its case, role or physician differs from the event"),
    )
    REVIEW_UNRECORDED = "review-unrecorded", _("review %(detail)s has no submission event")
    RELEASE = "release", _("this release is gone, or differs from the event of its freeze")
    FORM = "form", _("version %(detail)s of this benchmark's review form differs from the event of its publication")
    CASE_UNRECORDED = "case-unrecorded", _("this case has no event of its opening: it was not opened by this site")
    CASE_STATE = "case-state", _("the state of this case, or its ground, differs from its events")
    CASE_SETTINGS = "case-settings", _("the priority, specialty or language of this case differs from its events")
    CASE_FIRST_LOOK = "case-first-look", _("the first looks at this case differ from its events")
    CASE_RETRACTION = "case-retraction", _("the submissions of this case that were undone differ from its events")
    CASE_REMARK = "case-remark", _("the comments on this case differ from its events")
    CASE_REWORDING = (
        "case-rewording",
        _("the change of wording in this case, or the answer to it, differs from its events"),
    )
    ACCOUNT_UNRECORDED = "account-unrecorded", _("this account has no events: it was not created by this site")
    ACCOUNT_ROLE = "account-role", _("this account's role differs from its events")
    ACCOUNT_ACTIVE = "account-active", _("this account is open or closed, contrary to its events")
    ACCOUNT_PAUSED = "account-paused", _("this account is paused or not, contrary to its events")
    ACCOUNT_SENIOR = "account-senior", _("this account is marked as a senior physician or not, contrary to its events")
    ACCOUNT_KEEPER = "account-keeper", _("this account's access to Django's admin differs from its events")
    ACCOUNT_SECOND_FACTOR = "account-second-factor", _("this account's second factor differs from its events")


@dataclass(frozen=True, slots=True)
class AuditFault:
    """One fault: its place in which chain and, if the row exists, its row and case.

    Attributes:
        sequence, until: first and last position in the chain that it concerns.
        detail: by kind of fault, a position in the chain (where a MOVED row belongs) or a primary
            key (which review, which account).
        name: username, if it concerns an account; benchmark, if it concerns a review form;
            name and version of a release.
    """

    what: FaultCode
    chain: str
    sequence: int
    until: int
    id: int | None = None
    case: int | None = None
    detail: int | None = None
    name: str = ""

    def __str__(self) -> str:
        if self.what is FaultCode.FORM:
            return f"{self.name}: {self.what.label % {'detail': self.detail}}"
        if self.what is FaultCode.RELEASE:
            return f"{self.name}: {self.what.label}"
        if self.name:
            return f"{self.name} (id {self.detail}): {self.what.label}"
        where = f"{self.chain} {self.sequence}"
        if self.until != self.sequence:
            where += f"–{self.until}"
        row = ""
        if self.id:
            row = f" (id {self.id})"
        if self.what.startswith("case-"):
            return f"{_('case %(id)s') % {'id': self.case}}: {self.what.label}"
        case = ""
        if self.case:
            case = " · " + _("case %(id)s") % {"id": self.case}
        return f"{where}{row}{case}: {self.what.label % {'detail': self.detail}}"

    @property
    @shown
    def text(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class FurtherCheck:
    """What an app of a higher layer compares with the trail, and what of it no event covers."""

    faults: Callable[[Callable[[], None]], Iterator[AuditFault]]  # of a heartbeat
    not_covered: Callable[[], list[str]]


_further: list[FurtherCheck] = []


def register(further: FurtherCheck) -> None:
    """Add to every check; to be called in `registered.py`."""
    _further.append(further)


def not_covered() -> list[str]:
    """What is older than the events that further checks compare with."""
    registrations.load()
    names: list[str] = []
    for further in _further:
        names += further.not_covered()
    return names


Anchors = Mapping[str, Mapping[int, str]]  # name of a chain -> sequence -> hash


def check(
    audit: Audit, *, anchors: Anchors | None = None, heartbeat: Callable[[], None] = lambda: None
) -> Iterator[AuditFault]:
    """Yield every fault of the trail, in the order of the chain, and update the counts of `audit`.

    Both chains are streamed: of all rows, only the keys of reviews stay in memory. Events written
    during the check are left to the next one.

    Args:
        audit: neither read from the database nor saved.
        anchors: hashes of events noted outside the database (an export holds one), by chain. A
            chain that was rewritten or cut as a whole is consistent; only an anchor reveals it.
        heartbeat: called after every `HEARTBEAT_ROWS` rows.
    """
    heads = ChainHead.objects.in_bulk()
    audit.total = sum(head.sequence for head in heads.values())
    key = ""
    if EVENTS in heads:
        key, audit.sequence, audit.hash = heads[EVENTS].key, heads[EVENTS].sequence, heads[EVENTS].hash
    reviews = _Reviews(key)
    for name, model in MODELS.items():
        noted = (anchors or {}).get(name, {})
        yield from _check_chain(name, model, heads.get(name), audit, reviews, noted, heartbeat)
    if heads.keys() >= MODELS.keys():
        for name in MODELS:
            yield from _check_recorded_ends(name, heads[OTHER_CHAIN[name]].sequence)
    yield from reviews.unrecorded()
    for case, mismatch in _confirmed(Case, cases.mismatches):
        yield AuditFault(FaultCode(f"case-{mismatch}"), EVENTS, 0, 0, case=case)
    for benchmark, version in cases.altered_forms():
        yield AuditFault(FaultCode.FORM, PERSON_EVENTS, 0, 0, detail=version, name=benchmark)
    for pk, mismatch in _confirmed(User, accounts.mismatches):
        username = User.objects.values_list("username", flat=True).get(pk=pk)
        yield AuditFault(FaultCode(f"account-{mismatch}"), PERSON_EVENTS, 0, 0, detail=pk, name=username)
    registrations.load()
    for further in _further:
        yield from further.faults(heartbeat)
    audit.reviews, audit.unsealed = reviews.checked, reviews.unsealed


def _confirmed(
    model: type[Model], mismatches: Callable[[Collection[int]], list[tuple[int, str]]]
) -> Iterator[tuple[int, str]]:
    """Primary keys of rows that differ from their events, each with the name of the mismatch."""
    last = 0
    rows = model._default_manager.order_by("pk").values_list("pk", flat=True)
    while chunk := list(rows.filter(pk__gt=last)[:CHUNK]):
        last = chunk[-1]
        for pk in dict.fromkeys(pk for pk, _name in mismatches(chunk)):
            # Check again while nobody can write events: a change between two queries is no fault.
            with transaction.atomic():
                list(ChainHead.objects.select_for_update())
                confirmed = mismatches([pk])
            yield from confirmed


def _check_chain(
    name: str,
    model: type[Chained],
    head: ChainHead | None,
    audit: Audit,
    reviews: "_Reviews",
    anchors: Mapping[int, str],
    heartbeat: Callable[[], None],
) -> Iterator[AuditFault]:
    if head is None:
        yield AuditFault(FaultCode.NO_END, name, 0, 0)
        return
    sequence, hash_, last_id, last_case = 0, chain_entries.GENESIS, 0, None
    has_predecessor = True  # whether `hash_` is the hash of the preceding row, so the next row must link to it
    rows: QuerySet[Any] = model._default_manager.filter(sequence__lte=head.sequence).order_by("sequence", "id")
    if model is Event:
        rows = rows.select_related("case").defer("case__spec")
    for row in rows.iterator(chunk_size=CHUNK):
        where = {"id": row.pk, "case": getattr(row, "case_id", None)}
        audit.checked += 1
        if audit.checked % HEARTBEAT_ROWS == 0:
            heartbeat()
        if row.sequence <= sequence:
            yield AuditFault(FaultCode.INSERTED, name, row.sequence, row.sequence, **where)
            continue
        if row.sequence > sequence + 1:
            yield AuditFault(FaultCode.MISSING, name, sequence + 1, row.sequence - 1)
            has_predecessor = False
        sequence = row.sequence
        if not _is_as_hashed(row, head.key, row.sequence):
            original = None
            if audit.faults_count < MAX_STORED_FAULTS:
                original = _original_sequence(model, row, head.key)
            if original:
                what = FaultCode.MOVED
            else:
                what = FaultCode.ALTERED
            yield AuditFault(what, name, sequence, sequence, **where, detail=original)
            has_predecessor = False
        else:
            if has_predecessor and row.previous != hash_:
                yield AuditFault(FaultCode.REPLACED, name, sequence - 1, sequence - 1, id=last_id, case=last_case)
            elif row.pk < last_id:
                yield AuditFault(FaultCode.EXCHANGED, name, sequence, sequence, **where)
            if anchors.get(sequence, row.hash) != row.hash:
                yield AuditFault(FaultCode.OTHER_ANCHOR, name, sequence, sequence, **where)
            has_predecessor, hash_ = True, row.hash
            last_id, last_case = row.pk, where["case"]
        if row.kind == SUBMITTED and model is Event and isinstance(row.data, dict):
            yield from reviews.add(row)
    yield from reviews.compare()
    if sequence < head.sequence:
        yield AuditFault(FaultCode.CUT_OFF, name, sequence + 1, head.sequence)
    elif has_predecessor and hash_ != head.hash:
        yield AuditFault(FaultCode.NO_END, name, sequence, sequence)
    for place in sorted(place for place in anchors if place > head.sequence):
        yield AuditFault(FaultCode.CUT_OFF, name, place, place)
    # One statement, because a writer moves the head and adds rows in one transaction.
    end = ChainHead.objects.filter(pk=name).values("sequence")
    beyond = model._default_manager.filter(sequence__gt=Subquery(end)).values_list("pk", "sequence")
    for pk, place in beyond[:MAX_STORED_FAULTS]:
        yield AuditFault(FaultCode.INSERTED, name, place, place, id=pk)


def _check_recorded_ends(chain: str, upto: int) -> Iterator[AuditFault]:
    """Yield a fault for every end of `chain` that the other chain recorded and that is not in it.

    Args:
        upto: last position in the other chain that is read.
    """
    other = OTHER_CHAIN[chain]
    events: QuerySet[Any] = MODELS[other]._default_manager.filter(sequence__lte=upto)
    checkpoints = events.filter(kind__in=CHECKPOINTS[other], data__has_key=ANCHOR)
    rows = checkpoints.order_by("sequence").values_list("sequence", "data").iterator(chunk_size=CHUNK)
    while chunk := list(islice(rows, CHUNK)):
        recorded: dict[int, tuple[str, int]] = {}  # position in `chain` -> its hash, and who recorded it
        for place, data in chunk:
            try:
                name, sequence, hash_ = parse_anchor(str(data[ANCHOR]))
            except chain_entries.NOT_OURS:  # its own chain has a fault there
                continue
            if name == chain:
                recorded.setdefault(sequence, (hash_, place))
        rows_there = MODELS[chain]._default_manager.filter(sequence__in=recorded)
        hashes = dict(rows_there.values_list("sequence", "hash"))
        for sequence, (hash_, place) in recorded.items():
            if hashes.get(sequence) != hash_:
                yield AuditFault(FaultCode.OTHER_CHAIN, chain, sequence, sequence, detail=place)


def _original_sequence(model: type[Chained], row: Any, key: str) -> int | None:
    """The position at which a row that does not match its hash was written; None if none matches.

    Tries the position after the row that it names as `previous` and, in case that row was moved as
    well, the position that its primary key suggests.
    """
    rows = model._default_manager.order_by()
    before = rows.filter(hash=row.previous).values_list("sequence", flat=True).first() or 0
    for place in (before + 1, rows.filter(pk__lt=row.pk).count() + 1):
        if _is_as_hashed(row, key, place):
            return place
    return None


def _is_as_hashed(row: Any, key: str, place: int) -> bool:
    """Whether an event is what its hash says, at this position in the chain."""
    try:
        return bool(chain_entries.digest(chain_entries.entry(row, key, sequence=place)) == row.hash)
    except chain_entries.NOT_OURS:
        return False


def resealed_digests() -> dict[int, str]:
    """The digests of reviews whose author was anonymised, or whose case was erased, since."""
    changed = (PersonEvent.Kind.ANONYMISED, PersonEvent.Kind.ERASED)
    rows = PersonEvent.objects.filter(kind__in=changed).order_by("sequence")
    digests: dict[int, str] = {}
    for data in rows.values_list("data", flat=True):
        with suppress(*chain_entries.NOT_OURS):
            digests |= {int(pk): digest for pk, digest in data["reviews"].items()}
    return digests


class _Reviews:
    """Compares reviews with the events of their submission, `CHUNK` at a time."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._resealed = resealed_digests()
        self._waiting: dict[int, Event] = {}  # review -> row of its submission event
        self._seen: set[int] = set()
        self.checked = self.unsealed = 0

    def add(self, row: Event) -> Iterator[AuditFault]:
        """Add a submission event; compares once `CHUNK` of them are waiting."""
        review = row.data.get("review")
        if not isinstance(review, int) or not 1 <= review <= MAX_ID:
            yield self._fault(FaultCode.REVIEW_MISSING, row, None)
            return
        if review in self._seen:
            yield self._fault(FaultCode.REVIEW_MISSING, row, review)
            return
        self._seen.add(review)
        self._waiting[review] = row
        if len(self._waiting) >= CHUNK:
            yield from self.compare()

    def compare(self) -> Iterator[AuditFault]:
        """Yield the faults of the reviews added since the last comparison."""
        rows, self._waiting = self._waiting, {}
        reviews = Review.objects.select_related("case").defer("case__spec").in_bulk(rows)
        for pk, row in rows.items():
            review, data = reviews.get(pk), row.data
            recorded = (row.case_id, row.actor_id, data.get("role"), data.get("phase"))
            if review is None or recorded != (review.case_id, review.physician_id, review.role, review.phase):
                yield self._fault(FaultCode.REVIEW_MISSING, row, pk)
                continue
            self.checked += 1
            if "digest" not in data:
                self.unsealed += 1
            elif self._resealed.get(pk, data["digest"]) != self._digest(review):
                yield self._fault(FaultCode.REVIEW_ALTERED, row, pk)

    def unrecorded(self) -> Iterator[AuditFault]:
        """Yield a fault for every review without a submission event.

        A review submitted after the check began was not added, but its event exists: query for it.
        """
        rows = Review.objects.order_by("pk").values_list("pk", "case_id").iterator(chunk_size=CHUNK)
        for pk, case in rows:
            if pk not in self._seen and not Event.objects.filter(case=case, kind=SUBMITTED, data__review=pk).exists():
                yield AuditFault(FaultCode.REVIEW_UNRECORDED, EVENTS, 0, 0, case=case, detail=pk)

    def _digest(self, review: Review) -> str | None:
        try:
            return chain_entries.review_digest(review, self._key)
        except chain_entries.NOT_OURS:
            return None

    def _fault(self, what: FaultCode, row: Event, review: int | None) -> AuditFault:
        place = row.sequence
        return AuditFault(what, EVENTS, place, place, id=row.pk, case=row.case_id, detail=review)


# ----------------------------------------------------------------------------------- stored checks


def create_check(actor: User | None) -> Audit:
    """Store a new check for `run` to execute."""
    return Audit.objects.create(asked_by=actor, asked_at=timezone.now())


def request_check(actor: User) -> Audit:
    """Return the check in progress, or create a new one, for an admin; a worker runs it."""
    require(actor, Can.OVERSEE)
    check = check_in_progress() or create_check(actor)
    wake_after_commit("review.tasks.check_trail", check.pk)
    return check


def check_in_progress() -> Audit | None:
    """The check that a worker is running, or that was requested less than WORKER_TIMEOUT ago."""
    last = latest()
    if last is None or last.ended_at is not None:
        return None
    if (last.seen_at or last.asked_at) > timezone.now() - WORKER_TIMEOUT:
        return last
    return None


def latest() -> Audit | None:
    """The check that was requested last."""
    return Audit.objects.select_related("asked_by").order_by("-pk").first()


def run(
    audit_id: int, *, anchors: Anchors | None = None, on_fault: Callable[[AuditFault], None] | None = None
) -> Audit:
    """Execute a check and store its result. Does nothing if the check has already ended.

    Args:
        on_fault: called with every fault as soon as it is found.
    """
    audit = Audit.objects.get(pk=audit_id)
    if audit.ended_at is not None:
        return audit
    audit.checked = audit.faults_count = 0  # an earlier worker may have ended before its check
    found: list[AuditFault] = []
    for fault in check(audit, anchors=anchors, heartbeat=lambda: _save_progress(audit)):
        audit.faults_count += 1
        if len(found) < MAX_STORED_FAULTS:
            found.append(fault)
        if on_fault is not None:
            on_fault(fault)
    audit.ended_at, audit.faults = timezone.now(), [asdict(fault) for fault in found]
    _save_progress(audit, "ended_at", "faults")
    return audit


def faults(audit: Audit) -> list[AuditFault]:
    """The stored faults of a check."""
    return [AuditFault(**{**fault, "what": FaultCode(fault["what"])}) for fault in audit.faults]


def _save_progress(audit: Audit, *more: str) -> None:
    """Store the counts so far. Another worker may have ended the check: only the end says so."""
    audit.seen_at = timezone.now()
    counts = ("total", "checked", "reviews", "unsealed", "sequence", "hash", "faults_count")
    audit.save(update_fields=["seen_at", *counts, *more])


# ----------------------------------------------------------------------------------------- queries


def events(*, case: int | None = None, **filters: Any) -> QuerySet[Event]:
    """The events of all cases, filtered as `acts.matching` says."""
    rows = acts.matching(Event.objects.select_related("actor", "case").defer("case__spec"), **filters)
    if case is None:
        return rows
    return rows.filter(case=case)


def end_of(chain: str) -> str:
    """Where a chain ends now, as SEQUENCE:HASH."""
    return ":".join(map(str, ChainHead.objects.values_list("sequence", "hash").get(pk=chain)))


def ends() -> list[str]:
    """Where both chains end now, as ``cases:SEQUENCE:HASH`` and ``accounts:SEQUENCE:HASH``."""
    anchors = [anchor_of(chain) for chain in MODELS]
    return [anchor for anchor in anchors if anchor]


def parse_anchor(text: str) -> tuple[str, int, str]:
    """The chain, position and hash in ``[cases:|accounts:]SEQUENCE:HASH``. Raises ValueError."""
    match = re.match(ANCHOR_FORMAT, text)
    if match is None:
        raise ValueError(text)
    chain = EVENTS
    if match[1] == CHAIN_NAMES[PERSON_EVENTS]:
        chain = PERSON_EVENTS
    return chain, int(match[2]), match[3]


def contains(anchor: str) -> bool:
    """Whether the chain still has the event of an anchor. Raises ValueError for anything else.

    A look-up. Whether that row still matches its hash, only a check says.
    """
    chain, sequence, hash_ = parse_anchor(anchor)
    return MODELS[chain]._default_manager.filter(sequence=sequence, hash=hash_).exists()


def last_sequence() -> int:
    """The position of the last event in the chain."""
    return ChainHead.objects.values_list("sequence", flat=True).get(pk=EVENTS)


def hash_at(sequence: int) -> str:
    """The hash of the event at a position in the chain; at 0, the `previous` of the first event."""
    if sequence:
        return Event.objects.values_list("hash", flat=True).get(sequence=sequence)
    return chain_entries.GENESIS


def pseudonym_key() -> str:
    """This installation's key for pseudonyms in the audit trail."""
    return ChainHead.objects.values_list("key", flat=True).get(pk=EVENTS)
