"""The review machine: the state of a case is a function of its policy and of the opinions so far.

    primary -> secondary -> approved | rejected | adjudication -> approved | rejected      (withdrawn from anywhere)
    approved at once, on the ground 'unreviewed', where the policy asks nobody

Nothing here is stored and nothing can be skipped: `position` replays the opinions in their order and refuses one that was
not open when it came. Sentences in quotation marks are the MHB paper's (Introduction; Expert-led Quality Assurance).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a case stands. The first three wait for physicians, the others are final."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    ADJUDICATION = "adjudication"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"

    @property
    def final(self) -> bool:
        return self in FINAL


FINAL = frozenset({State.APPROVED, State.REJECTED, State.WITHDRAWN})


class Role(StrEnum):
    """What one physician is in one case. Nobody holds two."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    ADJUDICATOR_1 = "adjudicator-1"
    ADJUDICATOR_2 = "adjudicator-2"

    @property
    def stage(self) -> State:
        return State.ADJUDICATION if self in ADJUDICATORS else State(self.value)


ADJUDICATORS = (Role.ADJUDICATOR_1, Role.ADJUDICATOR_2)


class Phase(StrEnum):
    """COMMIT: the own, independent answer. CONFIRM: the secondary's after seeing the primary. DISCUSS: the second vote."""

    COMMIT = "commit"
    CONFIRM = "confirm"
    DISCUSS = "discuss"


class Verdict(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"


class Declaration(StrEnum):
    """What the secondary says of rubrics that are not those that the primary approved."""

    WORDING = "wording"
    MEANING = "meaning"


class Consent(StrEnum):
    """What became of a wording that was put to the primary."""

    ACCEPTED = "accepted"
    OBJECTED = "objected"
    LAPSED = "lapsed"


class Ground(StrEnum):
    """Why a case ended as it did."""

    CONSENSUS = "consensus"
    CORRECTED = "corrected"  # both approve, and the rubrics that stand are not those that the first approved
    OBJECTION_LAPSED = "objection-lapsed"  # as before, and the first was shown them and did not object in time
    PRIMARY_ALONE = "primary-alone"
    UNREVIEWED = "unreviewed"
    RUBRIC_INADEQUATE = "rubric-inadequate"
    ADJUDICATED = "adjudicated"
    UNDECIDED = "undecided"
    WITHDRAWN = "withdrawn"


NOT_SAMPLED = "not-sampled"


def shown_status(status: str, ground: str) -> str:
    """The status that people read: what nobody was asked about is not called approved."""
    return NOT_SAMPLED if ground == Ground.UNREVIEWED else status


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of one case, frozen with it.

    secondary: "another physician independently checks the correctness of this annotation"; off, the primary's word ends
        the case.
    secondary_confirms: the secondary answers blind ("by two physicians independently"), then sees the primary's review
        and confirms or changes ("independently verifies the primary reviewer's annotations and conclusions").
    inadequate_rejects: "If a sample's generated rubric is deemed inadequate by either reviewer, it is rejected and
        regenerated", without adjudication.
    discussion: one round with both rationales open if the two adjudicators differ; still different is a rejection ("the
        final sample achieves consensus"), as the paper names no tie-breaker.
    fresh_eyes_required: those who had a role in an earlier version may not take one in a later; otherwise only preferred.
    reveal_first_look: naturalness is judged before the traps are shown ("whether the trap-infused dialogue or question flows
        naturally"): a marked trap no longer looks natural.
    adjudicators_blind: an adjudicator sees the two reviews, and what both said, only after both adjudicators have voted. The
        paper says "two additional physicians" and not what they see: by default they see the dispute that they are to settle.
    settle_wording: two adjudicators who both approve and leave other rubrics standing, or word one differently, vote once more:
        what is approved is what both have agreed to. A secondary who approves other rubrics than the primary declares whether
        the meaning is another: then it is dissent, else the primary may object. Ours; off for cases from before. Wants
        `discussion`.
    objection_hours: how long the primary may object to a wording. 0: not asked; the case closes on the ground `corrected`.
    other_hospital: the secondary and the adjudicators come from other hospitals than the primary.
    sign_with_password: signing off a review asks for the password again.
    sign_with_second_factor: signing off a review asks for a code of the physician's authenticator app.
    calibrated_only: a physician must have passed the calibration cases before working on real ones.
    third_decides: what reviewers answer is compared, not their verdict, which is not asked: where the first two differ, a
        third decides. For cases that are measured by their answers, which nobody approves or rejects.
    primary: off, nobody is asked and the case is approved as it opens, on the ground that says so: a benchmark of which
        physicians review a sampled share.
    """

    secondary: bool = True
    secondary_confirms: bool = True
    inadequate_rejects: bool = True
    discussion: bool = True
    fresh_eyes_required: bool = False
    reveal_first_look: bool = False
    adjudicators_blind: bool = False
    settle_wording: bool = False
    objection_hours: int = 72
    other_hospital: bool = False
    sign_with_password: bool = False
    sign_with_second_factor: bool = False
    calibrated_only: bool = False
    primary: bool = True
    third_decides: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a sample is rejected, or why it is approved against the primary's rejection.

    A reducible one (ambiguous wording, missing context, something overlooked) can be mended; an irreducible one (true medical
    disagreement) cannot: a sample rejected for it is dropped.
    """

    code: str
    label: str
    reducible: bool


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a submitted review says to the machine. `inadequate`: a rubric was found not aligned with its trap; `wording`: the
    rubrics that an approval leaves standing, comparable, under `third_decides` the answers; `declared`: what the secondary says
    of a difference; `consent`: what the primary said to it, empty as long as nothing."""

    role: Role
    phase: Phase
    verdict: Verdict
    inadequate: bool = False
    wording: str = ""
    declared: Declaration | None = None
    consent: Consent | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """A review that may be submitted next."""

    role: Role
    phase: Phase


@dataclass(frozen=True, slots=True)
class Position:
    """Where a case stands and what may come next; `ground` is set when it has ended. `awaits_consent`: the primary may object
    to a wording, and nothing else is open."""

    state: State
    openings: frozenset[Opening] = frozenset()
    ground: Ground | None = None
    awaits_consent: bool = False


class OutOfTurn(ValueError):
    """This review is not open in this case."""


def position(policy: Policy, opinions: Iterable[Opinion], *, withdrawn: bool = False) -> Position:
    """Replay `opinions` under `policy`.

    Raises:
        OutOfTurn: an opinion came that was not open at its turn.
    """
    given: dict[Opening, Opinion] = {}
    now = _position(policy, given)
    for opinion in opinions:
        turn = Opening(opinion.role, opinion.phase)
        if turn not in now.openings:
            raise OutOfTurn(f"{opinion.role} {opinion.phase} is not open in state {now.state}")
        given[turn] = opinion
        now = _position(policy, given)
    if withdrawn and not now.state.final:
        return Position(State.WITHDRAWN, ground=Ground.WITHDRAWN)
    return now


def _position(policy: Policy, given: dict[Opening, Opinion]) -> Position:
    if not policy.primary:
        return Position(State.APPROVED, ground=Ground.UNREVIEWED)
    primary = given.get(Opening(Role.PRIMARY, Phase.COMMIT))
    if primary is None:
        return Position(State.PRIMARY, frozenset({Opening(Role.PRIMARY, Phase.COMMIT)}))
    if not policy.secondary:
        if policy.inadequate_rejects and primary.inadequate:
            return Position(State.REJECTED, ground=Ground.RUBRIC_INADEQUATE)
        return _closed(primary.verdict, Ground.PRIMARY_ALONE)

    blind, confirm = Opening(Role.SECONDARY, Phase.COMMIT), Opening(Role.SECONDARY, Phase.CONFIRM)
    secondary = given.get(blind)
    if secondary is None:
        return Position(State.SECONDARY, frozenset({blind}))
    if policy.third_decides:
        third = Opening(Role.ADJUDICATOR_1, Phase.COMMIT)
        if primary.wording == secondary.wording:
            return Position(State.APPROVED, ground=Ground.CONSENSUS)
        if third in given:
            return Position(State.APPROVED, ground=Ground.ADJUDICATED)
        return Position(State.ADJUDICATION, frozenset({third}))
    if policy.secondary_confirms:
        secondary = given.get(confirm)
        if secondary is None:
            return Position(State.SECONDARY, frozenset({confirm}))
    if policy.inadequate_rejects and (primary.inadequate or secondary.inadequate):
        return Position(State.REJECTED, ground=Ground.RUBRIC_INADEQUATE)
    if primary.verdict == secondary.verdict:
        reworded = policy.settle_wording and primary.verdict is Verdict.APPROVE and primary.wording != secondary.wording
        if not reworded:
            return _closed(primary.verdict, Ground.CONSENSUS)
        if (now := _reworded(policy, secondary)) is not None:
            return now

    for phase in [Phase.COMMIT, Phase.DISCUSS] if policy.discussion else [Phase.COMMIT]:
        turns_of_both = {role: Opening(role, phase) for role in ADJUDICATORS}
        missing = frozenset(turn for turn in turns_of_both.values() if turn not in given)
        if missing:
            return Position(State.ADJUDICATION, missing)
        first, second = (given[turns_of_both[role]] for role in ADJUDICATORS)
        if first.verdict != second.verdict:
            continue
        asked_again = policy.settle_wording and policy.discussion and phase is Phase.COMMIT
        if asked_again and first.verdict is Verdict.APPROVE and first.wording != second.wording:
            continue
        return _closed(first.verdict, Ground.ADJUDICATED)
    return Position(State.REJECTED, ground=Ground.UNDECIDED)


def _reworded(policy: Policy, secondary: Opinion) -> Position | None:
    """Where a case stands whose two reviewers approve different rubrics; None: that is dissent."""
    asked = secondary.declared is Declaration.WORDING and policy.objection_hours > 0
    if secondary.declared is Declaration.MEANING or (asked and secondary.consent is Consent.OBJECTED):
        return None
    if not asked:
        return _closed(Verdict.APPROVE, Ground.CORRECTED)
    if secondary.consent is None:
        return Position(State.SECONDARY, awaits_consent=True)
    return _closed(
        Verdict.APPROVE, Ground.CONSENSUS if secondary.consent is Consent.ACCEPTED else Ground.OBJECTION_LAPSED
    )


def _closed(verdict: Verdict, ground: Ground) -> Position:
    return Position(State.APPROVED if verdict is Verdict.APPROVE else State.REJECTED, ground=ground)
