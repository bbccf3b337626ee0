"""The review state machine: a case's state is a function of its policy and the opinions so far.

    primary -> secondary -> approved | rejected | adjudication -> approved | rejected
    withdrawn from any state that is not final
    approved at once, on the ground 'unreviewed', if the policy requires no review

Nothing here is stored and no step can be skipped: `position` replays the opinions in order and
refuses any that was not open at its turn. Quotations are from the MHB paper (Introduction;
Expert-led Quality Assurance).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The state of a case. The first three wait for physicians, the others are final."""

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
    """The role of a physician in a case. Nobody holds two roles in the same case."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    ADJUDICATOR_1 = "adjudicator-1"
    ADJUDICATOR_2 = "adjudicator-2"

    @property
    def stage(self) -> State:
        if self in ADJUDICATORS:
            return State.ADJUDICATION
        return State(self.value)


ADJUDICATORS = (Role.ADJUDICATOR_1, Role.ADJUDICATOR_2)


class Phase(StrEnum):
    """The phase of a role.

    COMMIT: an independent answer. CONFIRM: the secondary's answer after seeing the primary's.
    DISCUSS: an adjudicator's second vote.
    """

    COMMIT = "commit"
    CONFIRM = "confirm"
    DISCUSS = "discuss"


class Verdict(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"


class Declaration(StrEnum):
    """How, according to the secondary, its rubrics differ from those that the primary approved."""

    WORDING = "wording"
    MEANING = "meaning"


class Consent(StrEnum):
    """The outcome of a rewording that was shown to the primary."""

    ACCEPTED = "accepted"
    OBJECTED = "objected"
    LAPSED = "lapsed"


class Ground(StrEnum):
    """Why a case closed as it did."""

    CONSENSUS = "consensus"
    CORRECTED = "corrected"  # both approved, but with other rubrics than the primary approved
    OBJECTION_LAPSED = "objection-lapsed"  # likewise, and the primary was shown them and did not object in time
    PRIMARY_ALONE = "primary-alone"
    UNREVIEWED = "unreviewed"
    RUBRIC_INADEQUATE = "rubric-inadequate"
    ADJUDICATED = "adjudicated"
    UNDECIDED = "undecided"
    WITHDRAWN = "withdrawn"


NOT_SAMPLED = "not-sampled"


def shown_status(status: str, ground: str) -> str:
    """The status as displayed: an unreviewed case is not called approved."""
    if ground == Ground.UNREVIEWED:
        return NOT_SAMPLED
    return status


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of one case, frozen with it.

    secondary: "another physician independently checks the correctness of this annotation"; if off,
        the primary's verdict closes the case.
    secondary_confirms: the secondary answers blind ("by two physicians independently"), then sees
        the primary's review and confirms or changes the answers ("independently verifies the
        primary reviewer's annotations and conclusions").
    inadequate_rejects: "If a sample's generated rubric is deemed inadequate by either reviewer, it
        is rejected and regenerated", without adjudication.
    discussion: if the two adjudicators differ, they vote once more with both rationales visible; if
        they still differ, the sample is rejected ("the final sample achieves consensus"), as the
        paper names no tie-breaker.
    fresh_eyes_required: physicians who had a role in an earlier version must not take one in a
        later version; if off, others are only preferred.
    reveal_first_look: naturalness is judged before the traps are shown ("whether the trap-infused
        dialogue or question flows naturally"), because a marked trap no longer looks natural.
    adjudicators_blind: an adjudicator sees the two reviews, and their authors' remarks, only after
        both adjudicators have voted. The paper says "two additional physicians" and not what they
        see; by default they see the dispute that they have to settle.
    settle_wording: if two adjudicators both approve but keep or word rubrics differently, they vote
        once more, so that both have agreed to what is approved. A secondary who approves other
        rubrics than the primary declares whether the meaning differs: if so it is dissent, else the
        primary may object. Not in the paper; off for older cases. Needs `discussion`.
    objection_hours: how long the primary may object to a wording. 0: the primary is not asked and
        the case closes on the ground `corrected`.
    signed_wording: "the final sample achieves consensus": an approval by two physicians needs
        rubrics that both have submitted or accepted word for word. A primary who is not asked or
        stays silent has not accepted, and two adjudicators whose rubrics still differ leave the
        sample undecided. Off for older cases. Needs `settle_wording`.
    other_hospital: secondary and adjudicators must be from other hospitals than the primary.
    senior_decides: adjudicators, and the third reviewer under `third_decides`, must be marked as
        senior physicians.
    sign_with_password: submitting a review requires the password again.
    sign_with_second_factor: submitting a review requires a code of the physician's authenticator
        app.
    calibrated_only: physicians must pass the calibration cases before working on real ones.
    primary: if off, nobody is asked, and the case is approved on opening, on the ground
        'unreviewed': for benchmarks of which physicians review only a sampled share.
    guided: the benchmark's guidelines apply; off where they would mislead, as for a control, in
        which nothing was planted.
    third_decides: reviewers' answers are compared, not their verdicts, which are not asked; if the
        first two differ, a third reviewer decides. For cases that are measured by their answers and
        that nobody approves or rejects.
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
    signed_wording: bool = False
    other_hospital: bool = False
    senior_decides: bool = False
    sign_with_password: bool = False
    sign_with_second_factor: bool = False
    calibrated_only: bool = False
    primary: bool = True
    third_decides: bool = False
    guided: bool = True


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason to reject a sample, or to approve it against the primary's rejection.

    A revision can fix a reducible reason (ambiguous wording, missing context, something overlooked)
    but not an irreducible one (true medical disagreement): a sample rejected for it is discarded.
    """

    code: str
    label: str
    reducible: bool


@dataclass(frozen=True, slots=True)
class Opinion:
    """The content of a submitted review that matters to the state machine.

    inadequate: a rubric was found not to be aligned with its trap. wording: the rubrics that an
    approval keeps, as comparable text; under `third_decides` the answers. declared: how, according
    to the secondary, its rubrics differ from the primary's. consent: the outcome of the rewording;
    None while pending.
    """

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
    """The state of a case and the reviews that may come next.

    ground: set once the case has closed.
    awaits_consent: the primary may object to a rewording, and nothing else is open.
    """

    state: State
    openings: frozenset[Opening] = frozenset()
    ground: Ground | None = None
    awaits_consent: bool = False


class OutOfTurn(ValueError):
    """This review is not open in this case."""


def position(policy: Policy, opinions: Iterable[Opinion], *, withdrawn: bool = False) -> Position:
    """The position of a case after `opinions`, replayed in order under `policy`.

    Raises:
        OutOfTurn: an opinion was not open at its turn.
    """
    received: dict[Opening, Opinion] = {}
    current = _position(policy, received)
    for opinion in opinions:
        opening = Opening(opinion.role, opinion.phase)
        if opening not in current.openings:
            raise OutOfTurn(f"{opinion.role} {opinion.phase} is not open in state {current.state}")
        received[opening] = opinion
        current = _position(policy, received)
    if withdrawn and not current.state.final:
        return Position(State.WITHDRAWN, ground=Ground.WITHDRAWN)
    return current


def _position(policy: Policy, received: dict[Opening, Opinion]) -> Position:
    if not policy.primary:
        return Position(State.APPROVED, ground=Ground.UNREVIEWED)
    primary = received.get(Opening(Role.PRIMARY, Phase.COMMIT))
    if primary is None:
        return Position(State.PRIMARY, frozenset({Opening(Role.PRIMARY, Phase.COMMIT)}))
    if not policy.secondary:
        if policy.inadequate_rejects and primary.inadequate:
            return Position(State.REJECTED, ground=Ground.RUBRIC_INADEQUATE)
        return _closed(primary.verdict, Ground.PRIMARY_ALONE)

    blind, confirm = Opening(Role.SECONDARY, Phase.COMMIT), Opening(Role.SECONDARY, Phase.CONFIRM)
    secondary = received.get(blind)
    if secondary is None:
        return Position(State.SECONDARY, frozenset({blind}))
    if policy.third_decides:
        third = Opening(Role.ADJUDICATOR_1, Phase.COMMIT)
        if primary.wording == secondary.wording:
            return Position(State.APPROVED, ground=Ground.CONSENSUS)
        if third in received:
            return Position(State.APPROVED, ground=Ground.ADJUDICATED)
        return Position(State.ADJUDICATION, frozenset({third}))
    if policy.secondary_confirms:
        secondary = received.get(confirm)
        if secondary is None:
            return Position(State.SECONDARY, frozenset({confirm}))
    if policy.inadequate_rejects and (primary.inadequate or secondary.inadequate):
        return Position(State.REJECTED, ground=Ground.RUBRIC_INADEQUATE)
    if primary.verdict == secondary.verdict:
        reworded = policy.settle_wording and primary.verdict is Verdict.APPROVE and primary.wording != secondary.wording
        if not reworded:
            return _closed(primary.verdict, Ground.CONSENSUS)
        if (after_rewording := _rewording_position(policy, secondary)) is not None:
            return after_rewording

    phases = [Phase.COMMIT]
    if policy.discussion:
        phases.append(Phase.DISCUSS)
    for phase in phases:
        openings = [Opening(role, phase) for role in ADJUDICATORS]
        missing = frozenset(opening for opening in openings if opening not in received)
        if missing:
            return Position(State.ADJUDICATION, missing)
        first, second = (received[opening] for opening in openings)
        if first.verdict != second.verdict:
            continue
        may_vote_again = policy.settle_wording and policy.discussion and phase is Phase.COMMIT
        is_reworded = first.verdict is Verdict.APPROVE and first.wording != second.wording
        if is_reworded and (may_vote_again or policy.signed_wording):
            continue
        return _closed(first.verdict, Ground.ADJUDICATED)
    return Position(State.REJECTED, ground=Ground.UNDECIDED)


def _rewording_position(policy: Policy, secondary: Opinion) -> Position | None:
    """The position of a case whose reviewers approve different rubrics; None if that is dissent."""
    asked = secondary.declared is Declaration.WORDING and policy.objection_hours > 0
    if secondary.declared is Declaration.MEANING or (asked and secondary.consent is Consent.OBJECTED):
        return None
    if asked and secondary.consent is None:
        return Position(State.SECONDARY, awaits_consent=True)
    if policy.signed_wording and secondary.consent is not Consent.ACCEPTED:
        return None
    if not asked:
        return _closed(Verdict.APPROVE, Ground.CORRECTED)
    if secondary.consent is Consent.ACCEPTED:
        return _closed(Verdict.APPROVE, Ground.CONSENSUS)
    return _closed(Verdict.APPROVE, Ground.OBJECTION_LAPSED)


def _closed(verdict: Verdict, ground: Ground) -> Position:
    if verdict is Verdict.APPROVE:
        return Position(State.APPROVED, ground=ground)
    return Position(State.REJECTED, ground=ground)
