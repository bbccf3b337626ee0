"""What must be true while many physicians are at work, in plain Python: the rules told once more, without a database.

A `Ward` is told what somebody did and what came of it, and refuses (AssertionError) what must not have come of it. It says
too what has to be stored by then, and who may read what. A copy of it can be told the same in another order.
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
    """What decides which cases somebody is offered."""

    hospital: str = ""
    specialty: str = ""
    languages: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    cap: int | None = None
    paused: bool = False


class Kept(NamedTuple):
    """A draft: what was typed, and its revision."""

    text: str
    revision: int


class Hand(NamedTuple):
    """An assignment as its holder gets it from the services."""

    assignment: int
    case: int
    role: Role
    phase: Phase
    token: UUID
    draft: Kept | None


class Given(NamedTuple):
    """A review that was accepted, and the assignment after it, if its author goes on at once."""

    review: int
    goes_on: Hand | None


class Named:
    """Hypothesis writes it in its story as `repr` does, not field by field."""

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass
class Tab(Named):
    """A window in which somebody has opened an assignment; it knows the token and the draft's revision of then."""

    number: int
    who: str
    case: int
    role: Role
    phase: Phase
    assignment: int
    token: UUID
    seen: int

    def __repr__(self) -> str:
        return f"{self.who}'s tab {self.number} ({self.role} {self.phase} of case {self.case}, draft {self.seen})"


@dataclass
class Said(Named):
    """A review that was accepted."""

    review: int
    who: str
    opinion: Opinion
    text: str
    at: datetime
    taken_back: bool = False

    def __repr__(self) -> str:
        return f"{self.who}'s {self.opinion.role} {self.opinion.phase} ({self.opinion.verdict}, review {self.review})"


@dataclass
class Slot:
    """One role of one case: what is due in it, and who has it."""

    phase: Phase
    holder: str | None = None
    token: UUID | None = None  # None: its holder has not seen the one of this phase yet
    until: datetime | None = None
    reserved: str | None = None
    ever_taken: bool = False
    assignment: int | None = None  # its key, once somebody has had it


def trap(lineage: int, version: int) -> str:
    """The mark of whatever names the trap of a case."""
    return f"[[trap-{lineage * 100 + version}]]"


@dataclass
class File(Named):
    """One case. `asked_for`: the texts of reviews of the version before that it cites."""

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
    said: list[Said] = field(default_factory=list)
    looked: dict[tuple[str, Role], str] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)
    remarks: list[tuple[str, str]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"case {self.pk}"

    @property
    def trap(self) -> str:
        """What stands wherever the case names its trap."""
        return trap(self.lineage, self.version)

    @property
    def counted(self) -> list[Said]:
        return [said for said in self.said if not said.taken_back]

    @property
    def position(self) -> Position:
        return position(self.policy, [said.opinion for said in self.counted], withdrawn=self.withdrawn)

    def due(self, role: Role) -> bool:
        """Whether somebody is to answer in this role now."""
        return Opening(role, self.slots[role].phase) in self.position.openings

    def role_of(self, who: str) -> Role | None:
        return next((role for role, slot in self.slots.items() if slot.holder == who), None)

    def spoke(self, who: str, role: Role, phase: Phase | None = None, *, counted: bool = True) -> bool:
        """Whether `who` has answered in this role, and phase if given; `counted`: and has not taken it back."""
        said = [each.opinion for each in (self.counted if counted else self.said) if each.who == who]
        return any(each.role is role and phase in (None, each.phase) for each in said)


class Ward:
    """Everybody, every case, and what everybody has typed."""

    def __init__(self, people: dict[str, Person], *, now: datetime, lease: timedelta) -> None:
        self.people, self.now, self.lease = people, now, lease
        self.files: dict[int, File] = {}
        self.tabs: list[Tab] = []
        self.drafts: dict[tuple[str, int, Role, Phase], Kept] = {}

    # ----------------------------------------------------------------------------------------------- who may, who holds

    def held(self, who: str) -> list[tuple[int, Role]]:
        """What `who` is to answer now."""
        return [
            (file.pk, role)
            for file in self.files.values()
            for role, slot in file.slots.items()
            if slot.holder == who and file.due(role)
        ]

    def hindered(self, who: str) -> bool:
        """Paused, or done for today."""
        person = self.people[who]
        today = {
            file.pk
            for file in self.files.values()
            for said in file.said
            if said.who == who and said.opinion.phase is Phase.COMMIT and said.at.date() == self.now.date()
        }
        return person.paused or (person.cap is not None and len(today) >= person.cap)

    def permitted(self, who: str, file: File, role: Role) -> bool:
        """What no admin can waive."""
        person, first = self.people[who], file.slots[Role.PRIMARY].holder
        if file.role_of(who) is not None or who in file.declined:
            return False
        colleague = first is not None and self.people[first].hospital == person.hospital
        if file.policy.other_hospital and (colleague or not person.hospital):
            return False
        earlier = (f for f in self.files.values() if f.lineage == file.lineage and f.version < file.version)
        return not (file.policy.fresh_eyes_required and any(said.who == who for f in earlier for said in f.said))

    def free_for(self, who: str) -> list[tuple[int, Role]]:
        """Every role that `who` may take now."""
        return [
            (file.pk, role)
            for file in self.files.values()
            for role, slot in file.slots.items()
            if file.due(role) and self._may_take(who, file, role, slot)
        ]

    def _may_take(self, who: str, file: File, role: Role, slot: Slot) -> bool:
        lapsed = slot.holder is not None and slot.until is not None and slot.until < self.now
        if slot.phase is not Phase.COMMIT or not (slot.holder is None or lapsed) or not self.permitted(who, file, role):
            return False
        if slot.reserved is not None:
            return slot.reserved == who and not lapsed
        person = self.people[who]
        return (
            (not person.stages or role.stage in person.stages)
            and file.specialty in ("", person.specialty or file.specialty)
            and (not file.language or not person.languages or file.language in person.languages)
        )

    # ---------------------------------------------------------------------------------------------- what physicians did

    def claimed(self, who: str, hand: Hand | None) -> Tab | None:
        holding = self.held(who)
        free = holding or ([] if self.hindered(who) else self.free_for(who))
        if hand is None:
            assert not free, f"{who} gets nothing, though there is {free}"
            return None
        assert (hand.case, hand.role) in free, f"{who} gets {hand.role} of case {hand.case}, and may get only {free}"
        file = self.files[hand.case]
        slot = file.slots[hand.role]
        if not holding:
            slot.holder, slot.ever_taken = who, True
            assert hand.token not in {tab.token for tab in self.tabs}, "a token handed out twice"
            slot.token = hand.token
        return self._opened(who, hand)

    def _opened(self, who: str, hand: Hand) -> Tab:
        slot = self.files[hand.case].slots[hand.role]
        slot.token, slot.assignment = slot.token or hand.token, hand.assignment
        slot.until = self.now + self.lease
        assert (hand.phase, hand.token) == (slot.phase, slot.token)
        kept = self.drafts.get((who, hand.case, hand.role, hand.phase))
        assert hand.draft == kept, f"{who} had typed {kept} and comes back to {hand.draft}"
        number = len(self.tabs) + 1
        tab = Tab(number, who, hand.case, hand.role, hand.phase, hand.assignment, hand.token, _revision(kept))
        self.tabs.append(tab)
        return tab

    def refusal(self, tab: Tab) -> Refusal | None:
        """Why nothing can be done any more through this window; None: it can."""
        file = self.files[tab.case]
        slot = file.slots[tab.role]
        if slot.holder == tab.who and slot.token == tab.token:
            if not file.due(tab.role):
                return errors.AlreadySubmitted if file.spoke(tab.who, tab.role, slot.phase) else errors.CaseClosed
            return None
        if file.spoke(tab.who, tab.role, counted=slot.holder != tab.who):
            return errors.AlreadySubmitted
        return errors.LeaseLost

    def beaten(self, tab: Tab, outcome: object) -> None:
        """A heartbeat."""
        if self._goes(tab, outcome):
            self._renew(tab)

    def revealed(self, tab: Tab, text: str, outcome: object) -> None:
        file = self.files[tab.case]
        if self.refusal(tab) is None and not file.policy.reveal_first_look:
            assert outcome is errors.NothingToReveal
        elif self._goes(tab, outcome):
            self._renew(tab)
            file.looked.setdefault((tab.who, tab.role), text)

    def saved(self, tab: Tab, text: str, seen: int, outcome: object) -> None:
        """A draft saved over revision `seen`; `outcome`: its new revision."""
        why = self.refusal(tab)
        if why is errors.AlreadySubmitted:
            assert outcome is why, outcome
            return
        key = self._draft_of(tab)
        if seen != _revision(self.drafts.get(key)):
            assert outcome is (why or errors.StaleDraft), f"another window saved meanwhile, and the answer is {outcome}"
            return
        self.drafts[key] = Kept(text, seen + 1)
        if self._goes(tab, outcome):
            self._renew(tab)
            assert outcome == seen + 1
            tab.seen = seen + 1

    def submitted(self, tab: Tab, opinion: Opinion | None, text: str, seen: int, outcome: object) -> None:
        """A review submitted (`opinion` None: an incomplete one) by who had seen revision `seen` of the draft."""
        file, why = self.files[tab.case], self.refusal(tab)
        if why is not None:
            assert outcome is why, f"one answer too many is answered by {outcome}, not {why.__name__}"
            assert why.status == 409
            key = self._draft_of(tab)
            kept = self.drafts.get(key)
            # Typed in vain, so it is kept as a draft, unless another window has saved a later one.
            if why is not errors.AlreadySubmitted and seen == _revision(kept):
                self.drafts[key] = Kept(text, seen + 1)
            return
        if file.policy.reveal_first_look and (tab.who, tab.role) not in file.looked:
            assert outcome is errors.NotRevealed, outcome
            return
        if opinion is None:
            assert outcome is errors.Incomplete, outcome
            return
        assert isinstance(outcome, Given), outcome
        file.said.append(Said(outcome.review, tab.who, opinion, text, self.now))
        self._follow(file)
        slot = file.slots[tab.role]
        assert (outcome.goes_on is not None) == file.due(tab.role)
        if outcome.goes_on is not None:
            assert outcome.goes_on.token != tab.token, "the next phase has the token of the last"
            slot.token = outcome.goes_on.token
            self._opened(tab.who, outcome.goes_on)

    def given_back(self, tab: Tab, outcome: object, *, declined: bool) -> None:
        if self.refusal(tab) is None and tab.phase is not Phase.COMMIT:
            assert outcome is errors.AlreadySubmitted
        elif self._goes(tab, outcome):
            self._set_free(self.files[tab.case].slots[tab.role])
            if declined:
                self.files[tab.case].declined.add(tab.who)
                self.files[tab.case].slots[tab.role].reserved = None

    def retracted(self, file: File, said: Said, outcome: object) -> None:
        """A review taken back by its author; `outcome`: the Hand in which it is again."""
        if said.taken_back:
            assert outcome is errors.NotYours
            return
        if file.position.state.final or file.counted[-1] is not said:
            assert outcome is errors.NotUndoable, outcome
            return
        role = said.opinion.role
        said.taken_back = True
        now = file.position.openings
        opened = [
            other
            for other, slot in file.slots.items()
            if other is not role
            and Opening(other, slot.phase) not in now
            and not any(each.opinion.role is other for each in file.counted)
        ]
        touched = any(file.slots[other].ever_taken or file.slots[other].reserved for other in opened)
        if touched or file.slots[role].phase is not said.opinion.phase:
            said.taken_back = False
            assert outcome is errors.NotUndoable, outcome
            return
        assert isinstance(outcome, Hand), outcome
        for other in opened:
            del file.slots[other]
        key = (said.who, file.pk, role, said.opinion.phase)
        self.drafts[key] = Kept(said.text, _revision(self.drafts.get(key)) + 1)
        assert outcome.token != file.slots[role].token, "the token outlives the review"
        file.slots[role].token = outcome.token
        self._opened(said.who, outcome)

    def remarked(self, who: str, file: File, text: str, outcome: object) -> None:
        if who in self.people and file.role_of(who) is None:
            assert outcome is errors.NotYours
        else:
            assert outcome is None
            file.remarks.append((who, text))

    # -------------------------------------------------------------------------------- what admins, time and engines did

    def opened(self, file: File) -> None:
        self.files[file.pk] = file
        self._follow(file)

    def swept(self, count: int) -> None:
        forgotten = [
            slot
            for file in self.files.values()
            for role, slot in file.slots.items()
            if slot.holder is not None
            and file.due(role)
            and slot.phase is Phase.COMMIT
            and slot.until is not None
            and slot.until < self.now
        ]
        assert count == len(forgotten)
        for slot in forgotten:
            self._set_free(slot)

    def withdrawn(self, file: File, outcome: object) -> None:
        if file.position.state.final:
            assert outcome is errors.CaseClosed
        else:
            assert outcome is None, outcome
            file.withdrawn = True

    def prioritised(self, file: File, priority: int, outcome: object) -> None:
        if file.position.state.final:
            assert outcome is errors.CaseClosed
        else:
            assert not isinstance(outcome, type), outcome
            file.priority = priority

    def reassigned(self, file: File, role: Role, to: str | None, outcome: object) -> None:
        if file.position.state.final:
            assert outcome is errors.CaseClosed
            return
        slot = file.slots.get(role)
        if slot is None:
            assert outcome is errors.NotYours
            return
        if slot.phase is not Phase.COMMIT or not file.due(role):
            assert outcome is errors.Committed
            return
        loser, slot.holder = slot.holder, None
        if to is not None and to != loser and not self.permitted(to, file, role):
            slot.holder = loser
            assert outcome is errors.NotReserved
            return
        assert outcome is None, outcome
        self._set_free(slot)
        slot.reserved = to

    # ------------------------------------------------------------------------------------------------- who may read what

    def knows_trap(self, who: str, file: File) -> bool:
        """Whether `who`, who has a role, may see the traps."""
        return not file.policy.reveal_first_look or (who, file.role_of(who)) in file.looked

    def readable(self, who: str, file: File) -> list[Said]:
        """The reviews of a case that a physician may read."""
        role = file.role_of(who)
        if role is None:
            return []
        if file.position.state.final:
            return file.counted if any(said.who == who for said in file.counted) else []
        if not self.knows_trap(who, file):
            return []
        votes = [said for said in file.counted if said.opinion.role in ADJUDICATORS]
        both_voted = len([said for said in votes if said.opinion.phase is Phase.COMMIT]) == 2
        others: set[Role] = set()
        if role is Role.SECONDARY and file.policy.secondary_confirms and file.spoke(who, role):
            others = {Role.PRIMARY}
        elif role in ADJUDICATORS:
            others = {Role.PRIMARY, Role.SECONDARY}
        return [
            said
            for said in file.counted
            if said.who == who
            or said.opinion.role in others
            or (role in ADJUDICATORS and both_voted and said in votes and said.opinion.phase is Phase.COMMIT)
        ]

    def remarks_for(self, who: str, file: File) -> list[str]:
        """What a physician may read of the discussion."""
        if file.role_of(who) is None:
            return []
        authors = {who} | {said.who for said in self.readable(who, file)}
        admins = self.knows_trap(who, file) or file.position.state.final
        return [text for author, text in file.remarks if author in authors or (admins and author not in self.people)]

    def texts_for(self, who: str, file: File) -> set[str]:
        """Everything that has been typed, and every trap, that a physician with a role may find on the page of a case."""
        role = file.role_of(who)
        assert role is not None
        found = set(self.remarks_for(who, file))
        for said in self.readable(who, file):  # what was said at the first look is part of the review
            found |= {said.text, file.looked.get((said.who, said.opinion.role), said.text)}
        found |= {kept.text for key, kept in self.drafts.items() if key[:3] == (who, file.pk, role)}
        if (who, role) in file.looked:
            found.add(file.looked[who, role])
        if self.knows_trap(who, file):
            found |= {file.trap} | file.asked_for
        return found

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _goes(self, tab: Tab, outcome: object) -> bool:
        why = self.refusal(tab)
        if why is not None:
            assert outcome is why, f"the answer is {outcome}, not {why.__name__}"
            assert why.status == 409
            return False
        assert not isinstance(outcome, type), f"refused for no reason: {outcome}"
        return True

    def _renew(self, tab: Tab) -> None:
        self.files[tab.case].slots[tab.role].until = self.now + self.lease

    def _draft_of(self, tab: Tab) -> tuple[str, int, Role, Phase]:
        slot = self.files[tab.case].slots[tab.role]
        return tab.who, tab.case, tab.role, slot.phase if slot.holder == tab.who else Phase.COMMIT

    def _set_free(self, slot: Slot) -> None:
        slot.holder = slot.token = slot.until = None

    def _follow(self, file: File) -> None:
        for role, phase in sorted((turn.role, turn.phase) for turn in file.position.openings):
            slot = file.slots.get(role)
            if slot is None:
                file.slots[role] = Slot(phase)
            elif slot.phase is not phase:
                slot.phase, slot.token, slot.until = phase, None, self.now + self.lease


def _revision(kept: Kept | None) -> int:
    return kept.revision if kept is not None else 0
