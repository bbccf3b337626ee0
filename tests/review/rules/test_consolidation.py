"""What several physicians' answers come to: rubrics, evidence, reasons."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.cases import queries
from review.models import Case, User
from review.rules.consolidation import SettledRubric, is_reducible, median_level, merged_citations, settled_rubrics
from review.rules.questions import AddedRubric, Answers, RubricAnswer
from review.rules.state_machine import Ground, Policy, State
from tests.review.factories import (
    CITATION,
    WHOLE_FORM,
    opened,
    say,
    wholly_approving,
    wholly_rejecting,
)

FINE = dict(wholly_approving().rubrics)
GONE = RubricAnswer("removed", note="R2 says it.")
OWN = AddedRubric("Names the class of drugs.", ("A1",), "death")
OTHER = AddedRubric("Asks what else is taken.", ("C2",), "mild")
R1, R2 = (SettledRubric(r.key, r.criterion, r.tags, "mild") for r in WHOLE_FORM.rubrics)


def bare(settled: tuple[SettledRubric, ...]) -> tuple[SettledRubric, ...]:
    """Without the values of the single raters."""
    return tuple(replace(each, severities=()) for each in settled)


def corrected(wording: str, severity: str = "mild", **changes: RubricAnswer) -> Answers:
    return wholly_approving(rubrics=FINE | {"R1": RubricAnswer("corrected", wording, severity=severity)} | changes)


@pytest.mark.parametrize(
    ("deciding", "settled"),
    [
        ([wholly_approving()], (R1, R2)),
        (
            [corrected(" Calls it invented. ", "death")],
            (replace(R1, criterion="Calls it invented.", severity="death"), R2),
        ),
        (
            [wholly_approving(rubrics=FINE | {"R1": GONE})],
            (SettledRubric("R1", R1.criterion, R1.tags, removed=True), R2),
        ),
        ([wholly_approving(added=(OWN,))], (R1, R2, SettledRubric("P1", OWN.criterion, ("A1",), "death", False, True))),
        # sealed from each other
        ([corrected("Calls it invented."), wholly_approving()], (replace(R1, criterion="Calls it invented."), R2)),
        (
            [corrected("Calls it invented."), corrected("Calls it unknown.")],
            (replace(R1, criterion="Calls it unknown."), R2),
        ),
        ([wholly_approving(rubrics=FINE | {"R1": GONE}), wholly_approving()], (R1, R2)),
        (
            [wholly_approving(rubrics=FINE | {"R1": GONE}), corrected("Calls it invented.")],
            (replace(R1, criterion="Calls it invented."), R2),
        ),
        (
            [wholly_approving(), corrected("Calls it invented.", "death")],
            (replace(R1, criterion="Calls it invented.", severity="death"), R2),
        ),
        (
            [wholly_approving(added=(OWN,)), wholly_approving(added=(OTHER, replace(OWN, severity="none")))],
            (
                R1,
                R2,
                SettledRubric("P1", OWN.criterion, ("A1",), "death", False, True),
                SettledRubric("P2", OTHER.criterion, ("C2",), "mild", False, True),
            ),
        ),
        (  # one removed what the other added in other words: it stands once
            [
                wholly_approving(rubrics=FINE | {"R1": GONE}, added=(replace(OWN, criterion=R1.criterion),)),
                wholly_approving(),
            ],
            (R1, R2),
        ),
    ],
)
def test_rubrics_that_stand(deciding: list[Answers], settled: tuple[SettledRubric, ...]) -> None:
    assert bare(settled_rubrics(WHOLE_FORM, deciding)) == settled


@pytest.mark.parametrize(
    ("chosen", "level"),
    [
        ([], ""),
        (["death"], "death"),
        (["none", "death"], "death"),
        (["none", "none", "death"], "none"),
        (["death", "none", "mild"], "mild"),
        (["none", "mild", "mild", "death"], "mild"),
    ],
)
def test_the_harm_is_the_median_of_all_raters_the_worse_of_two_in_the_middle(chosen: list[str], level: str) -> None:
    assert median_level(WHOLE_FORM, chosen) == level


def test_all_raters_count_and_each_value_is_kept() -> None:
    said = [corrected("Calls it invented.", level) for level in ("none", "none", "death")]
    (first, _second) = settled_rubrics(WHOLE_FORM, said[-1:], said)
    assert (first.severity, first.severities) == ("none", ("none", "none", "death"))


def test_a_key_of_the_form_is_not_given_twice() -> None:
    form = replace(WHOLE_FORM, rubrics=(replace(WHOLE_FORM.rubrics[0], key="P1"),))
    answers = wholly_approving(rubrics={"P1": FINE["R1"]}, added=(OWN,))
    assert [rubric.key for rubric in settled_rubrics(form, [answers])] == ["P1", "P2"]


def test_each_source_once() -> None:
    doi = replace(CITATION, kind="doi", reference="https://doi.org/10.1000/ABC", section="")
    one = wholly_approving(citations=(CITATION, doi))
    other = wholly_approving(citations=(replace(doi, reference="10.1000/abc", passage="Another line."),))
    assert merged_citations([one, other]) == (CITATION, replace(doi, reference="10.1000/abc"))


@pytest.mark.parametrize(
    ("codes", "mendable"),
    [
        (["unclear"], True),
        (["disputed"], False),
        (["disputed", "disputed"], False),
        (["disputed", "unclear"], True),
        (["disputed", ""], False),
        ([""], True),
        ([], True),
    ],
)
def test_what_a_new_version_can_mend(codes: list[str], mendable: bool) -> None:
    assert is_reducible(WHOLE_FORM, [wholly_rejecting(code) for code in codes]) is mendable


FINDINGS = st.one_of(
    st.builds(RubricAnswer, st.just("adequate"), severity=st.sampled_from(["none", "mild", "death"])),
    st.builds(RubricAnswer, st.just("corrected"), st.sampled_from(["One.", "Two."]), severity=st.just("mild")),
    st.just(GONE),
)
APPROVALS = st.builds(
    lambda one, two, added: wholly_approving(rubrics={"R1": one, "R2": two}, added=tuple(added)),
    FINDINGS,
    FINDINGS,
    st.lists(st.sampled_from([OWN, OTHER]), max_size=2, unique=True),
).filter(lambda answers: answers.added or any(f.value != "removed" for f in answers.rubrics.values()))


@given(st.lists(APPROVALS, min_size=1, max_size=2))
def test_an_approved_sample_keeps_a_rubric_each_with_its_harm(deciding: list[Answers]) -> None:
    settled = settled_rubrics(WHOLE_FORM, deciding)
    standing = [rubric for rubric in settled if not rubric.removed]
    assert standing
    assert all(rubric.severity for rubric in standing)
    assert [rubric.key for rubric in settled][:2] == ["R1", "R2"]
    assert len({rubric.key for rubric in settled}) == len(settled)
    own = [rubric.criterion for rubric in settled if rubric.added_by_physician]
    assert len(own) == len(set(own))
    if len(deciding) == 1:
        assert {rubric.key for rubric in settled if rubric.removed} == {
            key for key, finding in deciding[0].rubrics.items() if finding.value == "removed"
        }


# ------------------------------------------------------------------------------------------------------- whose answers


def whole(**how: Policy) -> Case:
    return opened(form=WHOLE_FORM, **how)  # type: ignore[arg-type]


def outcome(case: Case) -> queries.SettledCase:
    case.refresh_from_db()
    return queries.settled_case(case)


def test_the_confirming_secondary_decides_which_additions_stand(db: None, ana: User, bo: User) -> None:
    case = whole()
    say(ana, wholly_approving(added=(OWN,), rubrics=FINE | {"R1": GONE}))
    say(bo, wholly_approving(), wholly_approving(added=(OTHER,), change_reason="This one is better."))
    settled = outcome(case)
    assert [rubric.criterion for rubric in settled.rubrics if rubric.added_by_physician] == [OTHER.criterion]
    assert [rubric.key for rubric in settled.kept_rubrics] == ["R1", "R2", "P1"], "the removal was seen and not taken over"


def test_who_never_saw_the_others_answers_takes_nothing_away(db: None, ana: User, bo: User) -> None:
    case = whole(policy=Policy(secondary_confirms=False))
    say(ana, wholly_approving(added=(OWN,), citations=(replace(CITATION, section="1"),)))
    say(bo, wholly_approving(added=(OTHER,)))
    settled = outcome(case)
    assert [rubric.criterion for rubric in settled.rubrics[2:]] == [OWN.criterion, OTHER.criterion]
    assert [citation.section for citation in settled.citations] == ["1", "2.1"]


def test_the_adjudicators_over_both(db: None, ana: User, bo: User, chen: User, dina: User) -> None:
    case = whole()
    say(ana, wholly_approving(added=(OWN,), citations=(replace(CITATION, section="1"),)))
    against = wholly_rejecting("disputed", citations=(replace(CITATION, section="9"),))
    say(bo, against, against)
    say(chen, corrected("Calls it invented."))
    say(dina, wholly_approving(rubrics=FINE | {"R2": GONE}))
    settled = outcome(case)
    assert settled.state == State.APPROVED
    assert bare(settled.rubrics) == (replace(R1, criterion="Calls it invented."), R2)
    assert [citation.section for citation in settled.citations] == ["1", "2.1"], "of those who approved"
    assert (settled.reasons, settled.reducible) == ((), False)


@pytest.mark.parametrize(
    ("first", "second", "mendable"), [("disputed", "disputed", False), ("unclear", "disputed", True)]
)
def test_a_consensus_against(db: None, ana: User, bo: User, first: str, second: str, mendable: bool) -> None:
    case = whole()
    say(ana, wholly_rejecting(first))
    say(bo, wholly_rejecting(second), wholly_rejecting(second))
    settled = outcome(case)
    assert settled.reducible is mendable
    labels = {"unclear": "Unclear wording", "disputed": "Disputed"}
    said = dict.fromkeys(f"{labels[code]}: Nobody would ask this." for code in (first, second))
    assert settled.reasons == tuple(said)
    assert bare(settled.rubrics) == ()
    assert settled.citations == ()


def test_the_adjudicators_decide_whether_it_can_be_mended(
    db: None, ana: User, bo: User, chen: User, dina: User
) -> None:
    case = whole()
    say(ana, wholly_approving())
    say(bo, wholly_rejecting("unclear"), wholly_rejecting("unclear"))
    say(chen, wholly_rejecting("disputed"))
    say(dina, wholly_rejecting("disputed"))
    settled = outcome(case)
    assert settled.reducible is False
    assert settled.reasons == ("Unclear wording: Nobody would ask this.", "Disputed: Nobody would ask this.")


def test_a_rubric_found_inadequate_can_always_be_mended(db: None, ana: User, bo: User) -> None:
    case = whole()
    off = wholly_rejecting("disputed", rubrics=FINE | {"R1": RubricAnswer("inadequate", note="Off.")})
    say(ana, off)
    say(bo, wholly_rejecting("disputed"), wholly_rejecting("disputed"))
    assert outcome(case).reducible is True


SETTLE = Policy(settle_wording=True)


def test_a_correction_that_the_first_reviewer_has_not_seen_is_no_consensus(ana: User, bo: User) -> None:
    case = opened(policy=SETTLE, form=WHOLE_FORM)
    say(ana, wholly_approving())
    better = replace(corrected("Calls it invented."), change_reason="Clearer.")
    say(bo, wholly_approving(), replace(better, declaration="wording"))
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.SECONDARY, ""), "the first reviewer is asked"
    other = opened(2, policy=SETTLE, form=WHOLE_FORM)
    say(ana, corrected("Calls it invented."))
    say(bo, wholly_approving(), better)
    other.refresh_from_db()
    assert (other.state, other.ground) == (State.APPROVED, Ground.CONSENSUS), "taken over"


def test_adjudicators_whose_wordings_differ_vote_again_and_once(ana: User, bo: User, chen: User, dina: User) -> None:
    case = opened(policy=SETTLE, form=WHOLE_FORM)
    against = wholly_rejecting()
    say(ana, wholly_approving())
    say(bo, against, against)
    say(chen, corrected("Calls it invented."))
    say(dina, wholly_approving())
    case.refresh_from_db()
    assert case.state == State.ADJUDICATION
    say(chen, corrected("Calls it invented."))
    say(dina, corrected("Calls it invented."))
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.APPROVED, Ground.ADJUDICATED)
    assert queries.settled_case(case).rubrics[0].criterion == "Calls it invented."
