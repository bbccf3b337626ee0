"""The state machine of review makes the transitions of the diagram and no others."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.rules.state_machine import (
    ADJUDICATORS,
    Consent,
    Declaration,
    Ground,
    Opening,
    Opinion,
    OutOfTurn,
    Phase,
    Policy,
    Position,
    Role,
    State,
    Verdict,
    position,
)

PAPER = Policy()
A, R = Verdict.APPROVE, Verdict.REJECT
policies = st.builds(
    Policy,
    secondary=st.booleans(),
    secondary_confirms=st.booleans(),
    inadequate_rejects=st.booleans(),
    discussion=st.booleans(),
    fresh_eyes_required=st.booleans(),
    settle_wording=st.booleans(),
    signed_wording=st.booleans(),
    objection_hours=st.sampled_from([0, 72]),
    primary=st.booleans(),
)
opinions = st.builds(
    Opinion, st.sampled_from(Role), st.sampled_from(Phase), st.sampled_from(Verdict), inadequate=st.booleans()
)


@st.composite
def histories(draw: st.DrawFn, policy: Policy) -> list[Opinion]:
    """A prefix of a possible history: each opinion was open when it was given."""
    history: list[Opinion] = []
    for _ in range(draw(st.integers(0, 8))):
        openings = sorted(position(policy, history).openings, key=lambda turn: turn.role)
        if not openings:
            break
        turn = draw(st.sampled_from(openings))
        opinion = Opinion(turn.role, turn.phase, draw(st.sampled_from(Verdict)), inadequate=draw(st.booleans()))
        if turn.role is Role.SECONDARY:
            declared, consent = draw(st.sampled_from([None, *Declaration])), draw(st.sampled_from([None, *Consent]))
            opinion = replace(opinion, declared=declared, consent=consent)
        history.append(replace(opinion, wording=draw(st.sampled_from(["one", "other"]))))
    return history


policies_and_histories = policies.flatmap(lambda policy: st.tuples(st.just(policy), histories(policy)))


def primary(verdict: Verdict, inadequate: bool = False) -> Opinion:
    return Opinion(Role.PRIMARY, Phase.COMMIT, verdict, inadequate)


def blind(verdict: Verdict, inadequate: bool = False) -> Opinion:
    return Opinion(Role.SECONDARY, Phase.COMMIT, verdict, inadequate)


def confirmed(verdict: Verdict, inadequate: bool = False) -> Opinion:
    return Opinion(Role.SECONDARY, Phase.CONFIRM, verdict, inadequate)


def votes(phase: Phase, first: Verdict, second: Verdict) -> list[Opinion]:
    return [Opinion(role, phase, verdict) for role, verdict in zip(ADJUDICATORS, (first, second), strict=True)]


def walk(policy: Policy, history: tuple[Opinion, ...] = ()) -> Iterator[tuple[tuple[Opinion, ...], Position]]:
    """Every reachable position, each after the history that leads to it."""
    now = position(policy, history)
    yield history, now
    for turn in now.openings:
        inadequacies = (False,) if turn.role in ADJUDICATORS else (False, True)
        for verdict, inadequate in product(Verdict, inadequacies):
            yield from walk(policy, (*history, Opinion(turn.role, turn.phase, verdict, inadequate)))


def test_the_transitions_are_exactly_those_of_the_diagram() -> None:
    P, S, J = State.PRIMARY, State.SECONDARY, State.ADJUDICATION
    ends = {State.APPROVED, State.REJECTED}
    with_secondary = {(P, S)} | set(product((S, J), ends)) | {(S, J)}
    for switches in product((True, False), repeat=4):
        policy = Policy(*switches)
        transitions = set()
        for history, now in walk(policy):
            if history and (before := position(policy, history[:-1]).state) != now.state:
                transitions.add((before, now.state))
        assert transitions == (with_secondary if policy.secondary else set(product((P,), ends))), policy


@given(policies_and_histories)
def test_a_submitted_turn_does_not_open_again(drawn: tuple[Policy, list[Opinion]]) -> None:
    policy, history = drawn
    submitted = {Opening(opinion.role, opinion.phase) for opinion in history}
    assert len(submitted) == len(history)
    assert not submitted & position(policy, history).openings


@given(policies_and_histories)
def test_a_final_state_has_no_openings_and_a_ground(drawn: tuple[Policy, list[Opinion]]) -> None:
    now = position(*drawn)
    assert now.state.final == (not now.openings and not now.awaits_consent) == (now.ground is not None)
    assert not (now.openings and now.awaits_consent)
    assert all(turn.role.stage is now.state for turn in now.openings)


@given(policies_and_histories, opinions)
def test_an_opinion_that_is_not_open_is_refused(drawn: tuple[Policy, list[Opinion]], extra: Opinion) -> None:
    policy, history = drawn
    if Opening(extra.role, extra.phase) in position(policy, history).openings:
        assert position(policy, [*history, extra]) is not None
    else:
        with pytest.raises(OutOfTurn):
            position(policy, [*history, extra])


@given(policies, st.lists(opinions, max_size=8))
def test_a_list_of_opinions_is_refused_at_the_first_one_out_of_turn(policy: Policy, history: list[Opinion]) -> None:
    for count in range(len(history)):
        if Opening(history[count].role, history[count].phase) not in position(policy, history[:count]).openings:
            with pytest.raises(OutOfTurn):
                position(policy, history)
            return
    position(policy, history)


@given(policies_and_histories)
def test_a_case_can_be_withdrawn_from_any_state_that_is_not_final(drawn: tuple[Policy, list[Opinion]]) -> None:
    now, after = position(*drawn), position(*drawn, withdrawn=True)
    assert after == (now if now.state.final else Position(State.WITHDRAWN, ground=Ground.WITHDRAWN))


@given(policies_and_histories)
def test_the_case_ends_within_seven_reviews(drawn: tuple[Policy, list[Opinion]]) -> None:
    policy, history = drawn
    longest = 7 if policy.secondary else 1
    longest = longest if policy.primary else 0
    assert len(history) <= longest
    assert len(history) < longest or position(policy, history).state.final


@given(policies_and_histories)
def test_the_ground_is_unreviewed_exactly_when_there_is_no_primary_review(drawn: tuple[Policy, list[Opinion]]) -> None:
    policy, history = drawn
    now = position(policy, history)
    assert (now.ground is Ground.UNREVIEWED) == (not policy.primary)
    if not policy.primary:
        assert now == Position(State.APPROVED, ground=Ground.UNREVIEWED)
        assert not history


@given(policies_and_histories)
def test_the_order_of_the_two_adjudicators_does_not_matter(drawn: tuple[Policy, list[Opinion]]) -> None:
    policy, history = drawn

    def mirror(opinion: Opinion) -> Opinion:
        if opinion.role not in ADJUDICATORS:
            return opinion
        other = ADJUDICATORS[1 - ADJUDICATORS.index(opinion.role)]
        return replace(opinion, role=other)

    one, two = position(policy, history), position(policy, [mirror(opinion) for opinion in history])
    assert (one.state, one.ground, len(one.openings)) == (two.state, two.ground, len(two.openings))


# Taken by hand from the paper:
# (primary's verdict, inadequate?, secondary's confirmed verdict, inadequate?) -> outcome.
CONSENSUS, INADEQUATE = Ground.CONSENSUS, Ground.RUBRIC_INADEQUATE
TABLE = [
    (A, False, A, False, State.APPROVED, CONSENSUS),
    (A, False, A, True, State.REJECTED, INADEQUATE),
    (A, False, R, False, State.ADJUDICATION, None),
    (A, False, R, True, State.REJECTED, INADEQUATE),
    (A, True, A, False, State.REJECTED, INADEQUATE),
    (A, True, A, True, State.REJECTED, INADEQUATE),
    (A, True, R, False, State.REJECTED, INADEQUATE),
    (A, True, R, True, State.REJECTED, INADEQUATE),
    (R, False, A, False, State.ADJUDICATION, None),
    (R, False, A, True, State.REJECTED, INADEQUATE),
    (R, False, R, False, State.REJECTED, CONSENSUS),
    (R, False, R, True, State.REJECTED, INADEQUATE),
    (R, True, A, False, State.REJECTED, INADEQUATE),
    (R, True, A, True, State.REJECTED, INADEQUATE),
    (R, True, R, False, State.REJECTED, INADEQUATE),
    (R, True, R, True, State.REJECTED, INADEQUATE),
]


@pytest.mark.parametrize(("one", "one_bad", "two", "two_bad", "state", "ground"), TABLE)
def test_the_two_reviewers_decide_as_in_the_paper(
    one: Verdict, one_bad: bool, two: Verdict, two_bad: bool, state: State, ground: Ground | None
) -> None:
    for blind_verdict, blind_bad in product(Verdict, (False, True)):  # whatever the blind answer was
        history = [primary(one, one_bad), blind(blind_verdict, blind_bad), confirmed(two, two_bad)]
        now = position(PAPER, history)
        assert (now.state, now.ground) == (state, ground)
    once = position(Policy(secondary_confirms=False), [primary(one, one_bad), blind(two, two_bad)])
    assert (once.state, once.ground) == (state, ground)


@pytest.mark.parametrize(
    ("one", "two", "state", "ground"),
    [
        (A, A, State.APPROVED, Ground.ADJUDICATED),
        (R, R, State.REJECTED, Ground.ADJUDICATED),
        (A, R, State.ADJUDICATION, None),
        (R, A, State.ADJUDICATION, None),
    ],
)
def test_two_equal_votes_of_adjudicators_decide(
    one: Verdict, two: Verdict, state: State, ground: Ground | None
) -> None:
    dissent = [primary(A), blind(R), confirmed(R)]
    now = position(PAPER, dissent + votes(Phase.COMMIT, one, two))
    assert (now.state, now.ground) == (state, ground)
    if ground is None:  # unequal votes are discussed, or reject the case if the policy has no discussion
        assert now.openings == {Opening(role, Phase.DISCUSS) for role in ADJUDICATORS}
        at_once = position(Policy(discussion=False), dissent + votes(Phase.COMMIT, one, two))
        assert (at_once.state, at_once.ground) == (State.REJECTED, Ground.UNDECIDED)


@pytest.mark.parametrize(
    ("one", "two", "state", "ground"),
    [
        (A, A, State.APPROVED, Ground.ADJUDICATED),
        (R, R, State.REJECTED, Ground.ADJUDICATED),
        (A, R, State.REJECTED, Ground.UNDECIDED),
        (R, A, State.REJECTED, Ground.UNDECIDED),
    ],
)
def test_the_discussion_decides_and_rejects_if_the_votes_still_differ(
    one: Verdict, two: Verdict, state: State, ground: Ground
) -> None:
    differ = [primary(R), blind(A), confirmed(A), *votes(Phase.COMMIT, R, A)]
    now = position(PAPER, differ + votes(Phase.DISCUSS, one, two))
    assert (now.state, now.ground) == (state, ground)


def test_the_openings_along_the_longest_history() -> None:
    history = [primary(A), blind(A), confirmed(R), *votes(Phase.COMMIT, A, R), *votes(Phase.DISCUSS, R, R)]
    expected = [
        {Opening(Role.PRIMARY, Phase.COMMIT)},
        {Opening(Role.SECONDARY, Phase.COMMIT)},
        {Opening(Role.SECONDARY, Phase.CONFIRM)},
        {Opening(Role.ADJUDICATOR_1, Phase.COMMIT), Opening(Role.ADJUDICATOR_2, Phase.COMMIT)},
        {Opening(Role.ADJUDICATOR_2, Phase.COMMIT)},
        {Opening(Role.ADJUDICATOR_1, Phase.DISCUSS), Opening(Role.ADJUDICATOR_2, Phase.DISCUSS)},
        {Opening(Role.ADJUDICATOR_2, Phase.DISCUSS)},
        set(),
    ]
    assert [position(PAPER, history[:count]).openings for count in range(len(history) + 1)] == expected


@pytest.mark.parametrize(
    ("policy", "inadequate", "state", "ground"),
    [
        (Policy(secondary=False), False, State.APPROVED, Ground.PRIMARY_ALONE),
        (Policy(secondary=False), True, State.REJECTED, Ground.RUBRIC_INADEQUATE),
        (Policy(secondary=False, inadequate_rejects=False), True, State.APPROVED, Ground.PRIMARY_ALONE),
    ],
)
def test_without_a_secondary_the_primary_decides_alone(
    policy: Policy, inadequate: bool, state: State, ground: Ground
) -> None:
    now = position(policy, [primary(A, inadequate)])
    assert (now.state, now.ground) == (state, ground)


def test_without_inadequate_rejects_an_inadequate_rubric_is_an_ordinary_dissent() -> None:
    policy = Policy(inadequate_rejects=False)
    assert position(policy, [primary(R, True), blind(A), confirmed(A)]).state is State.ADJUDICATION
    assert position(policy, [primary(R, True), blind(A), confirmed(R)]).state is State.REJECTED


def test_adjudicators_with_different_wordings_are_asked_once_more() -> None:
    policy = Policy(secondary_confirms=False, settle_wording=True)
    disputed = [primary(A), blind(R)]
    one, other = (Opinion(role, Phase.COMMIT, A, wording=role.value) for role in ADJUDICATORS)
    now = position(policy, [*disputed, one, other])
    assert now.state is State.ADJUDICATION
    assert {opening.phase for opening in now.openings} == {Phase.DISCUSS}
    again = [replace(vote, phase=Phase.DISCUSS) for vote in (one, other)]
    assert position(policy, [*disputed, one, other, *again]).ground is Ground.ADJUDICATED, "they are asked only once"
    alike = replace(other, wording=one.wording)
    assert position(policy, [*disputed, one, alike]).ground is Ground.ADJUDICATED
    assert position(replace(policy, discussion=False), [*disputed, one, other]).ground is Ground.ADJUDICATED
    assert position(replace(policy, settle_wording=False), [*disputed, one, other]).ground is Ground.ADJUDICATED
    rejected = [replace(vote, verdict=R) for vote in (one, other)]
    assert position(policy, [*disputed, *rejected]).state is State.REJECTED


def test_consensus_requires_that_both_approved_the_same_wording() -> None:
    policy = Policy(settle_wording=True)
    one, other = replace(primary(A), wording="as it was"), replace(confirmed(A), wording="corrected")
    assert position(policy, [one, blind(A), other]).ground is Ground.CORRECTED, (
        "cases opened before declarations existed"
    )
    assert position(policy, [one, blind(A), replace(other, wording="as it was")]).ground is Ground.CONSENSUS
    assert position(Policy(), [one, blind(A), other]).ground is Ground.CONSENSUS, "cases without settled wording"
    rejected = [replace(one, verdict=R), blind(R), replace(other, verdict=R)]
    assert position(policy, rejected).ground is Ground.CONSENSUS


@pytest.mark.parametrize(
    ("hours", "declared", "consent", "expected"),
    [
        (72, Declaration.WORDING, None, Position(State.SECONDARY, awaits_consent=True)),
        (72, Declaration.WORDING, Consent.ACCEPTED, Position(State.APPROVED, ground=Ground.CONSENSUS)),
        (72, Declaration.WORDING, Consent.LAPSED, Position(State.APPROVED, ground=Ground.OBJECTION_LAPSED)),
        (72, Declaration.WORDING, Consent.OBJECTED, State.ADJUDICATION),
        (72, Declaration.MEANING, None, State.ADJUDICATION),
        (0, Declaration.WORDING, None, Position(State.APPROVED, ground=Ground.CORRECTED)),
        (0, Declaration.MEANING, None, State.ADJUDICATION),
    ],
)
def test_different_rubrics_are_a_rewording_or_a_dissent(
    hours: int, declared: Declaration, consent: Consent | None, expected: Position | State
) -> None:
    policy = Policy(settle_wording=True, objection_hours=hours)
    one = replace(primary(A), wording="as it was")
    other = replace(confirmed(A), wording="corrected", declared=declared, consent=consent)
    now = position(policy, [one, blind(A), other])
    assert expected in (now, now.state)
    alike = replace(other, wording=one.wording)
    assert position(policy, [one, blind(A), alike]).ground is Ground.CONSENSUS
    assert position(policy, [one, blind(A), other], withdrawn=True).state.final
    if now.state is State.ADJUDICATION:
        assert position(policy, [one, blind(A), other, *votes(Phase.COMMIT, A, A)]).ground is Ground.ADJUDICATED


@pytest.mark.parametrize(("hours", "consent"), [(0, None), (72, Consent.LAPSED), (72, Consent.OBJECTED)])
def test_where_rubrics_are_signed_silence_is_dissent_and_different_rubrics_stay_undecided(
    hours: int, consent: Consent | None
) -> None:
    policy = Policy(settle_wording=True, signed_wording=True, objection_hours=hours)
    one = replace(primary(A), wording="as it was")
    other = replace(confirmed(A), wording="corrected", declared=Declaration.WORDING, consent=consent)
    case = [one, blind(A), other]
    assert position(policy, case).state is State.ADJUDICATION
    first, second = (replace(vote, wording=vote.role.value) for vote in votes(Phase.COMMIT, A, A))
    again = [replace(vote, phase=Phase.DISCUSS) for vote in (first, second)]
    undecided = position(policy, [*case, first, second, *again])
    assert undecided == Position(State.REJECTED, ground=Ground.UNDECIDED)
    alike = [again[0], replace(again[1], wording=again[0].wording)]
    assert position(policy, [*case, first, second, *alike]).ground is Ground.ADJUDICATED
    alone = replace(policy, discussion=False)
    assert position(alone, [*case, first, second]).ground is Ground.UNDECIDED
    accepted = replace(other, consent=Consent.ACCEPTED)
    if hours:
        assert position(policy, [one, blind(A), accepted]).ground is Ground.CONSENSUS
