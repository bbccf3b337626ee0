"""The expected state of review while many physicians work: its rules in plain Python, no database.

An `ExpectedState` records each action with its outcome, and raises AssertionError if the rules do
not allow that outcome. It also knows what must be stored at any time, and who may read what. A copy
of it can record the same actions in another order.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from hypothesis.vendor.pretty import RepresentationPrinter

from review import errors
from review.rules.state_machine import ADJUDICATORS, Opening, Opinion, Phase, Policy, Position, Role, position

Refusal = type[errors.ReviewError]


@dataclass
class Person:
    """The properties of a physician that decide which cases are offered."""

    hospital: str = ""
    specialty: str = ""
    languages: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    cap: int | None = None
    paused: bool = False


class StoredDraft(NamedTuple):
    """The text and the revision of a stored draft."""

    text: str
    revision: int


class HeldAssignment(NamedTuple):
    """An assignment as the services return it to its holder."""

    assignment: int
    case: int
    role: Role
    phase: Phase
    token: UUID
    draft: StoredDraft | None


class Acceptance(NamedTuple):
    """An accepted submit: the review's key, and the author's next phase if it is due at once."""

    review_pk: int
    next_assignment: HeldAssignment | None


class PrintedByRepr:
    """Makes hypothesis print an object by its `repr` instead of field by field."""

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass
class Tab(PrintedByRepr):
    """A browser tab with an open assignment, its token and the draft's revision at that time."""

    number: int
    physician: str
    case: int
    role: Role
    phase: Phase
    assignment: int
    token: UUID
    revision: int

    def __repr__(self) -> str:
        turn = f"{self.role} {self.phase} of case {self.case}"
        return f"{self.physician}'s tab {self.number} ({turn}, draft {self.revision})"


@dataclass
class AcceptedReview(PrintedByRepr):
    """A review that the services accepted."""

    pk: int
    physician: str
    opinion: Opinion
    text: str
    submitted_at: datetime
    retracted: bool = False

    def __repr__(self) -> str:
        opinion = self.opinion
        return f"{self.physician}'s {opinion.role} {opinion.phase} ({opinion.verdict}, review {self.pk})"


@dataclass
class Slot:
    """One role of one case: its phase, its holder and its lease."""

    phase: Phase
    holder: str | None = None
    token: UUID | None = None  # None: the holder has not seen this phase's token yet
    lease_until: datetime | None = None
    reserved_for: str | None = None
    ever_claimed: bool = False
    assignment: int | None = None  # its key, once somebody has claimed it


def trap_mark(lineage: int, version: int) -> str:
    """The mark in every text of a case that names its trap."""
    return f"[[trap-{lineage * 100 + version}]]"


@dataclass
class ExpectedCase(PrintedByRepr):
    """One case. `asked_for`: marks of the previous version's reviews that this version cites."""

    pk: int
    lineage: int
    version: int
    policy: Policy
    language: str
    specialty: str
    asked_for: frozenset[str]
    withdrawn: bool = False
    priority: int = 0
    slots: dict[Role, Slot] = field(default_factory=dict)
    reviews: list[AcceptedReview] = field(default_factory=list)
    first_looks: dict[tuple[str, Role], str] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)
    remarks: list[tuple[str, str]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"case {self.pk}"

    @property
    def trap_mark(self) -> str:
        return trap_mark(self.lineage, self.version)

    @property
    def counted_reviews(self) -> list[AcceptedReview]:
        return [review for review in self.reviews if not review.retracted]

    @property
    def position(self) -> Position:
        return position(self.policy, [review.opinion for review in self.counted_reviews], withdrawn=self.withdrawn)

    def is_due(self, role: Role) -> bool:
        """Whether the case waits for an answer in this role."""
        return Opening(role, self.slots[role].phase) in self.position.openings

    def role_of(self, physician: str) -> Role | None:
        return next((role for role, slot in self.slots.items() if slot.holder == physician), None)

    def has_answered(self, physician: str, role: Role, phase: Phase | None = None, *, counted: bool = True) -> bool:
        """Whether `physician` has answered in this role, and in this phase if given.

        `counted`: leave out retracted reviews.
        """
        reviews = self.counted_reviews if counted else self.reviews
        opinions = [review.opinion for review in reviews if review.physician == physician]
        return any(opinion.role is role and phase in (None, opinion.phase) for opinion in opinions)


class ExpectedState:
    """All people, cases, open tabs and drafts.

    `concurrent`: several actions run at once. A draft is stored first and its lease is renewed
    after it, in two transactions: of two tabs that save while the lease is lost, one may hear of
    the other's draft, and the other of the lease.
    """

    def __init__(self, people: dict[str, Person], *, now: datetime, lease: timedelta, concurrent: bool = False) -> None:
        self.people, self.now, self.lease, self.concurrent = people, now, lease, concurrent
        self.cases: dict[int, ExpectedCase] = {}
        self.tabs: list[Tab] = []
        self.drafts: dict[tuple[str, int, Role, Phase], StoredDraft] = {}

    # ---------------------------------------------------------------------------------- eligibility

    def assignments_due(self, physician: str) -> list[tuple[int, Role]]:
        """The case and role of every assignment that `physician` holds and has to answer now."""
        return [
            (case.pk, role)
            for case in self.cases.values()
            for role, slot in case.slots.items()
            if slot.holder == physician and case.is_due(role)
        ]

    def is_blocked(self, physician: str) -> bool:
        """Whether `physician` is paused or has reached the daily cap."""
        person = self.people[physician]
        answered_today = {
            case.pk
            for case in self.cases.values()
            for review in case.reviews
            if review.physician == physician
            and review.opinion.phase is Phase.COMMIT
            and review.submitted_at.date() == self.now.date()
        }
        return person.paused or (person.cap is not None and len(answered_today) >= person.cap)

    def is_permitted(self, physician: str, case: ExpectedCase, role: Role) -> bool:
        """Whether `physician` passes the rules that no admin can waive."""
        person, primary = self.people[physician], case.slots[Role.PRIMARY].holder
        if case.role_of(physician) is not None or physician in case.declined:
            return False
        colleague = primary is not None and self.people[primary].hospital == person.hospital
        if case.policy.other_hospital and (colleague or not person.hospital):
            return False
        reviewed_earlier_version = any(
            review.physician == physician
            for earlier in self.cases.values()
            if earlier.lineage == case.lineage and earlier.version < case.version
            for review in earlier.reviews
        )
        return not (case.policy.fresh_eyes_required and reviewed_earlier_version)

    def claimable_roles(self, physician: str) -> list[tuple[int, Role]]:
        """Every case and role that `physician` may claim now."""
        return [
            (case.pk, role)
            for case in self.cases.values()
            for role, slot in case.slots.items()
            if case.is_due(role) and self._may_claim(physician, case, role, slot)
        ]

    def _may_claim(self, physician: str, case: ExpectedCase, role: Role, slot: Slot) -> bool:
        lapsed = slot.holder is not None and slot.lease_until is not None and slot.lease_until < self.now
        if (
            slot.phase is not Phase.COMMIT
            or not (slot.holder is None or lapsed)
            or not self.is_permitted(physician, case, role)
        ):
            return False
        if slot.reserved_for is not None:
            return slot.reserved_for == physician and not lapsed
        person = self.people[physician]
        return (
            (not person.stages or role.stage in person.stages)
            and case.specialty in ("", person.specialty or case.specialty)
            and (not case.language or not person.languages or case.language in person.languages)
        )

    # ------------------------------------------------------------------------ actions of physicians

    def record_claim(self, physician: str, held: HeldAssignment | None) -> Tab | None:
        """A claim that returned `held`; returns the tab in which that assignment is open."""
        already_held = self.assignments_due(physician)
        claimable = already_held or ([] if self.is_blocked(physician) else self.claimable_roles(physician))
        if held is None:
            assert not claimable, f"{physician} was given nothing, although {claimable} can be claimed"
            return None
        assert (held.case, held.role) in claimable, (
            f"{physician} was given {held.role} of case {held.case}, but only {claimable} can be claimed"
        )
        case = self.cases[held.case]
        slot = case.slots[held.role]
        if not already_held:
            slot.holder, slot.ever_claimed = physician, True
            assert held.token not in {tab.token for tab in self.tabs}, "a token was issued twice"
            slot.token = held.token
        return self._open_tab(physician, held)

    def _open_tab(self, physician: str, held: HeldAssignment) -> Tab:
        slot = self.cases[held.case].slots[held.role]
        slot.token, slot.assignment = slot.token or held.token, held.assignment
        slot.lease_until = self.now + self.lease
        assert (held.phase, held.token) == (slot.phase, slot.token)
        draft = self.drafts.get((physician, held.case, held.role, held.phase))
        assert held.draft == draft, f"{physician} saved {draft}, but was given {held.draft}"
        number = len(self.tabs) + 1
        tab = Tab(number, physician, held.case, held.role, held.phase, held.assignment, held.token, _revision(draft))
        self.tabs.append(tab)
        return tab

    def refusal(self, tab: Tab) -> Refusal | None:
        """The refusal of any action in this tab; None if the tab is still usable."""
        case = self.cases[tab.case]
        slot = case.slots[tab.role]
        if slot.holder == tab.physician and slot.token == tab.token:
            if not case.is_due(tab.role):
                return (
                    errors.AlreadySubmitted
                    if case.has_answered(tab.physician, tab.role, slot.phase)
                    else errors.CaseClosed
                )
            return None
        if case.has_answered(tab.physician, tab.role, counted=slot.holder != tab.physician):
            return errors.AlreadySubmitted
        return errors.LeaseLost

    def record_heartbeat(self, tab: Tab, outcome: object) -> None:
        if self._is_accepted(tab, outcome):
            self._renew_lease(tab)

    def record_first_look(self, tab: Tab, text: str, revision: int, outcome: object) -> None:
        case = self.cases[tab.case]
        self._keep_late_answers(tab, text, revision)
        if self.refusal(tab) is None and not case.policy.reveal_first_look:
            assert outcome is errors.NothingToReveal
        elif self._is_accepted(tab, outcome):
            self._renew_lease(tab)
            case.first_looks.setdefault((tab.physician, tab.role), text)

    def record_draft(self, tab: Tab, text: str, revision: int, outcome: object) -> None:
        """A draft saved over `revision`; `outcome`: its new revision."""
        refusal = self.refusal(tab)
        if refusal is errors.AlreadySubmitted:
            assert outcome is refusal, outcome
            return
        key = self._draft_key(tab)
        if revision != _revision(self.drafts.get(key)):
            allowed = {refusal or errors.StaleDraft}
            if self.concurrent:
                allowed.add(errors.StaleDraft)
            assert outcome in allowed, f"another tab saved in the meantime, but the outcome is {outcome}"
            return
        self.drafts[key] = StoredDraft(text, revision + 1)
        if self._is_accepted(tab, outcome):
            self._renew_lease(tab)
            assert outcome == revision + 1
            tab.revision = revision + 1

    def record_submit(self, tab: Tab, opinion: Opinion | None, text: str, revision: int, outcome: object) -> None:
        """Submit over `revision` of the draft; `opinion` is None if the answers are incomplete."""
        case, refusal = self.cases[tab.case], self.refusal(tab)
        if refusal is not None:
            assert outcome is refusal, f"the outcome of a late submit is {outcome}, not {refusal.__name__}"
            assert refusal.status == 409
            self._keep_late_answers(tab, text, revision)
            return
        if case.policy.reveal_first_look and (tab.physician, tab.role) not in case.first_looks:
            assert outcome is errors.NotRevealed, outcome
            return
        if opinion is None:
            assert outcome is errors.Incomplete, outcome
            return
        assert isinstance(outcome, Acceptance), outcome
        case.reviews.append(AcceptedReview(outcome.review_pk, tab.physician, opinion, text, self.now))
        self._open_due_roles(case)
        slot = case.slots[tab.role]
        assert (outcome.next_assignment is not None) == case.is_due(tab.role)
        if outcome.next_assignment is not None:
            assert outcome.next_assignment.token != tab.token, "the next phase still has the token of the previous one"
            slot.token = outcome.next_assignment.token
            self._open_tab(tab.physician, outcome.next_assignment)

    def record_release(self, tab: Tab, outcome: object, *, declined: bool) -> None:
        if self.refusal(tab) is None and tab.phase is not Phase.COMMIT:
            assert outcome is errors.AlreadySubmitted
        elif self._is_accepted(tab, outcome):
            self._set_free(self.cases[tab.case].slots[tab.role])
            if declined:
                self.cases[tab.case].declined.add(tab.physician)
                self.cases[tab.case].slots[tab.role].reserved_for = None

    def record_retraction(self, case: ExpectedCase, review: AcceptedReview, outcome: object) -> None:
        """A retraction by the author; `outcome`: the assignment that the author holds again."""
        if review.retracted:
            assert outcome is errors.NotAssigned
            return
        if case.position.state.final or case.counted_reviews[-1] is not review:
            assert outcome is errors.NotUndoable, outcome
            return
        role = review.opinion.role
        review.retracted = True
        openings = case.position.openings
        no_longer_open = [
            other
            for other, slot in case.slots.items()
            if other is not role
            and Opening(other, slot.phase) not in openings
            and not any(counted.opinion.role is other for counted in case.counted_reviews)
        ]
        built_upon = any(case.slots[other].ever_claimed or case.slots[other].reserved_for for other in no_longer_open)
        if built_upon or case.slots[role].phase is not review.opinion.phase:
            review.retracted = False
            assert outcome is errors.NotUndoable, outcome
            return
        assert isinstance(outcome, HeldAssignment), outcome
        for other in no_longer_open:
            del case.slots[other]
        key = (review.physician, case.pk, role, review.opinion.phase)
        self.drafts[key] = StoredDraft(review.text, _revision(self.drafts.get(key)) + 1)
        assert outcome.token != case.slots[role].token, "the token of the retracted review is still valid"
        case.slots[role].token = outcome.token
        self._open_tab(review.physician, outcome)

    def record_remark(self, physician: str, case: ExpectedCase, text: str, outcome: object) -> None:
        if physician in self.people and case.role_of(physician) is None:
            assert outcome is errors.NotAssigned
        else:
            assert outcome is None
            case.remarks.append((physician, text))

    # ------------------------------------------------------- actions of admins, the engine and time

    def record_opening(self, case: ExpectedCase) -> None:
        self.cases[case.pk] = case
        self._open_due_roles(case)

    def record_sweep(self, count: int) -> None:
        abandoned = [
            slot
            for case in self.cases.values()
            for role, slot in case.slots.items()
            if slot.holder is not None
            and case.is_due(role)
            and slot.phase is Phase.COMMIT
            and slot.lease_until is not None
            and slot.lease_until < self.now
        ]
        assert count == len(abandoned)
        for slot in abandoned:
            self._set_free(slot)

    def record_withdrawal(self, case: ExpectedCase, outcome: object) -> None:
        if case.position.state.final:
            assert outcome is errors.CaseClosed
        else:
            assert outcome is None, outcome
            case.withdrawn = True

    def record_priority(self, case: ExpectedCase, priority: int, outcome: object) -> None:
        if case.position.state.final:
            assert outcome is errors.CaseClosed
        else:
            assert not isinstance(outcome, type), outcome
            case.priority = priority

    def free_reserved(self, physician: str) -> None:
        """What is reserved for a physician who cannot take it any more is free to all."""
        for case in self.cases.values():
            for role, slot in case.slots.items():
                if slot.reserved_for == physician and case.is_due(role):
                    slot.reserved_for = None

    def record_reassignment(self, case: ExpectedCase, role: Role, to: str | None, outcome: object) -> None:
        if case.position.state.final:
            assert outcome is errors.CaseClosed
            return
        slot = case.slots.get(role)
        if slot is None:
            assert outcome is errors.NotAssigned
            return
        if slot.phase is not Phase.COMMIT or not case.is_due(role):
            assert outcome is errors.Committed
            return
        previous_holder, slot.holder = slot.holder, None
        has_another = any(other is not slot and other.reserved_for == to for other in case.slots.values())
        refused = to is not None and (self.people[to].paused or not self.is_permitted(to, case, role))
        if to is not None and (has_another or refused):
            slot.holder = previous_holder
            assert outcome is errors.NotReserved
            return
        assert outcome is None, outcome
        self._set_free(slot)
        slot.reserved_for = to

    # ----------------------------------------------------------------------------------- visibility

    def may_see_traps(self, physician: str, case: ExpectedCase) -> bool:
        """Whether `physician`, who has a role in the case, may see its traps."""
        return not case.policy.reveal_first_look or (physician, case.role_of(physician)) in case.first_looks

    def readable_reviews(self, physician: str, case: ExpectedCase) -> list[AcceptedReview]:
        """The reviews of a case that `physician` may read."""
        role = case.role_of(physician)
        if role is None:
            return []
        if case.position.state.final:
            has_reviewed = any(review.physician == physician for review in case.counted_reviews)
            return case.counted_reviews if has_reviewed else []
        if not self.may_see_traps(physician, case):
            return []
        votes = [review for review in case.counted_reviews if review.opinion.role in ADJUDICATORS]
        both_voted = len([review for review in votes if review.opinion.phase is Phase.COMMIT]) == 2
        readable_roles: set[Role] = set()
        if role is Role.SECONDARY and case.policy.secondary_confirms and case.has_answered(physician, role):
            readable_roles = {Role.PRIMARY}
        elif role in ADJUDICATORS:
            readable_roles = {Role.PRIMARY, Role.SECONDARY}
        return [
            review
            for review in case.counted_reviews
            if review.physician == physician
            or review.opinion.role in readable_roles
            or (role in ADJUDICATORS and both_voted and review in votes and review.opinion.phase is Phase.COMMIT)
        ]

    def readable_remarks(self, physician: str, case: ExpectedCase) -> list[str]:
        """The remarks on a case that `physician` may read."""
        if case.role_of(physician) is None:
            return []
        authors = {physician} | {review.physician for review in self.readable_reviews(physician, case)}
        reads_admins = self.may_see_traps(physician, case) or case.position.state.final
        return [
            text for author, text in case.remarks if author in authors or (reads_admins and author not in self.people)
        ]

    def visible_texts(self, physician: str, case: ExpectedCase) -> set[str]:
        """Every typed text and trap that a physician with a role may find on the case's page."""
        role = case.role_of(physician)
        assert role is not None
        texts = set(self.readable_remarks(physician, case))
        # A review contains its author's first look.
        for review in self.readable_reviews(physician, case):
            texts |= {review.text, case.first_looks.get((review.physician, review.opinion.role), review.text)}
        texts |= {draft.text for key, draft in self.drafts.items() if key[:3] == (physician, case.pk, role)}
        if (physician, role) in case.first_looks:
            texts.add(case.first_looks[physician, role])
        if self.may_see_traps(physician, case):
            texts |= {case.trap_mark} | case.asked_for
        return texts

    # -------------------------------------------------------------------------------------- helpers

    def _is_accepted(self, tab: Tab, outcome: object) -> bool:
        """Whether an action in `tab` was accepted; asserts that this outcome was the right one."""
        refusal = self.refusal(tab)
        if refusal is not None:
            assert outcome is refusal, f"the outcome is {outcome}, not {refusal.__name__}"
            assert refusal.status == 409
            return False
        assert not isinstance(outcome, type), f"refused without a reason: {outcome}"
        return True

    def _keep_late_answers(self, tab: Tab, text: str, revision: int) -> None:
        """What comes too late is stored as a draft, unless another tab has saved a later one."""
        key = self._draft_key(tab)
        is_late = self.refusal(tab) not in (None, errors.AlreadySubmitted)
        if is_late and revision == _revision(self.drafts.get(key)):
            self.drafts[key] = StoredDraft(text, revision + 1)

    def _renew_lease(self, tab: Tab) -> None:
        self.cases[tab.case].slots[tab.role].lease_until = self.now + self.lease

    def _draft_key(self, tab: Tab) -> tuple[str, int, Role, Phase]:
        slot = self.cases[tab.case].slots[tab.role]
        return tab.physician, tab.case, tab.role, slot.phase if slot.holder == tab.physician else Phase.COMMIT

    def _set_free(self, slot: Slot) -> None:
        slot.holder = slot.token = slot.lease_until = None

    def _open_due_roles(self, case: ExpectedCase) -> None:
        for role, phase in sorted((turn.role, turn.phase) for turn in case.position.openings):
            slot = case.slots.get(role)
            if slot is None:
                case.slots[role] = Slot(phase)
            elif slot.phase is not phase:
                slot.phase, slot.token, slot.lease_until = phase, None, self.now + self.lease


def _revision(draft: StoredDraft | None) -> int:
    return draft.revision if draft is not None else 0
