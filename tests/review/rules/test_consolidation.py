"""The consolidated result of several physicians' answers: rubrics, evidence, reasons."""

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


def without_severities(settled: tuple[SettledRubric, ...]) -> tuple[SettledRubric, ...]:
    """The rubrics without the severities of the individual raters."""
    return tuple(replace(rubric, severities=()) for rubric in settled)


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
        # two adjudicators, sealed from each other
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
        (  # one removed a rubric and added it again in the same words: it is kept once
            [
                wholly_approving(rubrics=FINE | {"R1": GONE}, added=(replace(OWN, criterion=R1.criterion),)),
                wholly_approving(),
            ],
            (R1, R2),
        ),
    ],
)
def test_the_deciding_answers_settle_the_rubrics(deciding: list[Answers], settled: tuple[SettledRubric, ...]) -> None:
    assert without_severities(settled_rubrics(WHOLE_FORM, deciding)) == settled


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
def test_the_severity_is_the_upper_median_of_all_raters(chosen: list[str], level: str) -> None:
    assert median_level(WHOLE_FORM, chosen) == level


def test_all_raters_count_and_every_severity_is_kept() -> None:
    answers = [corrected("Calls it invented.", level) for level in ("none", "none", "death")]
    (first, _second) = settled_rubrics(WHOLE_FORM, answers[-1:], answers)
    assert (first.severity, first.severities) == ("none", ("none", "none", "death"))


def test_an_added_rubric_gets_no_key_of_the_form() -> None:
    form = replace(WHOLE_FORM, rubrics=(replace(WHOLE_FORM.rubrics[0], key="P1"),))
    answers = wholly_approving(rubrics={"P1": FINE["R1"]}, added=(OWN,))
    assert [rubric.key for rubric in settled_rubrics(form, [answers])] == ["P1", "P2"]


def test_merged_citations_contain_each_source_once() -> None:
    doi = replace(CITATION, kind="doi", reference="https://doi.org/10.1000/ABC", section="")
    one = wholly_approving(citations=(CITATION, doi))
    other = wholly_approving(citations=(replace(doi, reference="10.1000/abc", passage="Another line."),))
    assert merged_citations([one, other]) == (CITATION, replace(doi, reference="10.1000/abc"))


@pytest.mark.parametrize(
    ("codes", "reducible"),
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
def test_a_rejection_is_reducible_if_a_reason_is(codes: list[str], reducible: bool) -> None:
    assert is_reducible(WHOLE_FORM, [wholly_rejecting(code) for code in codes]) is reducible


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
def test_an_approved_sample_keeps_at_least_one_rubric_and_each_has_a_severity(deciding: list[Answers]) -> None:
    settled = settled_rubrics(WHOLE_FORM, deciding)
    kept = [rubric for rubric in settled if not rubric.removed]
    assert kept
    assert all(rubric.severity for rubric in kept)
    assert [rubric.key for rubric in settled][:2] == ["R1", "R2"]
    assert len({rubric.key for rubric in settled}) == len(settled)
    added = [rubric.criterion for rubric in settled if rubric.added_by_physician]
    assert len(added) == len(set(added))
    if len(deciding) == 1:
        assert {rubric.key for rubric in settled if rubric.removed} == {
            key for key, finding in deciding[0].rubrics.items() if finding.value == "removed"
        }


# ------------------------------------------------------------------------------------------------------- which answers


def open_whole_form(**changes: Policy) -> Case:
    return opened(form=WHOLE_FORM, **changes)  # type: ignore[arg-type]


def outcome(case: Case) -> queries.SettledCase:
    case.refresh_from_db()
    return queries.settled_case(case)


def test_the_confirming_secondary_decides_which_additions_are_kept(db: None, ana: User, bo: User) -> None:
    case = open_whole_form()
    say(ana, wholly_approving(added=(OWN,), rubrics=FINE | {"R1": GONE}))
    say(bo, wholly_approving(), wholly_approving(added=(OTHER,), change_reason="This one is better."))
    settled = outcome(case)
    assert [rubric.criterion for rubric in settled.rubrics if rubric.added_by_physician] == [OTHER.criterion]
    assert [rubric.key for rubric in settled.kept_rubrics] == ["R1", "R2", "P1"], (
        "the second reviewer saw the removal and did not adopt it"
    )


def test_a_secondary_who_stays_blind_removes_no_additions_of_the_primary(db: None, ana: User, bo: User) -> None:
    case = open_whole_form(policy=Policy(secondary_confirms=False))
    say(ana, wholly_approving(added=(OWN,), citations=(replace(CITATION, section="1"),)))
    say(bo, wholly_approving(added=(OTHER,)))
    settled = outcome(case)
    assert [rubric.criterion for rubric in settled.rubrics[2:]] == [OWN.criterion, OTHER.criterion]
    assert [citation.section for citation in settled.citations] == ["1", "2.1"]


def test_the_answers_of_adjudicators_replace_those_of_both_reviewers(
    db: None, ana: User, bo: User, chen: User, dina: User
) -> None:
    case = open_whole_form()
    say(ana, wholly_approving(added=(OWN,), citations=(replace(CITATION, section="1"),)))
    against = wholly_rejecting("disputed", citations=(replace(CITATION, section="9"),))
    say(bo, against, against)
    say(chen, corrected("Calls it invented."))
    say(dina, wholly_approving(rubrics=FINE | {"R2": GONE}))
    settled = outcome(case)
    assert settled.state == State.APPROVED
    assert without_severities(settled.rubrics) == (replace(R1, criterion="Calls it invented."), R2)
    assert [citation.section for citation in settled.citations] == ["1", "2.1"], (
        "sources of the physicians who approved"
    )
    assert (settled.reasons, settled.reducible) == ((), False)


@pytest.mark.parametrize(
    ("first", "second", "reducible"), [("disputed", "disputed", False), ("unclear", "disputed", True)]
)
def test_a_consensus_to_reject_is_reducible_if_a_reason_is(
    db: None, ana: User, bo: User, first: str, second: str, reducible: bool
) -> None:
    case = open_whole_form()
    say(ana, wholly_rejecting(first))
    say(bo, wholly_rejecting(second), wholly_rejecting(second))
    settled = outcome(case)
    assert settled.reducible is reducible
    labels = {"unclear": "Unclear wording", "disputed": "Disputed"}
    reasons = dict.fromkeys(f"{labels[code]}: Nobody would ask this." for code in (first, second))
    assert settled.reasons == tuple(reasons)
    assert without_severities(settled.rubrics) == ()
    assert settled.citations == ()


def test_the_adjudicators_decide_whether_it_can_be_mended(
    db: None, ana: User, bo: User, chen: User, dina: User
) -> None:
    case = open_whole_form()
    say(ana, wholly_approving())
    say(bo, wholly_rejecting("unclear"), wholly_rejecting("unclear"))
    say(chen, wholly_rejecting("disputed"))
    say(dina, wholly_rejecting("disputed"))
    settled = outcome(case)
    assert settled.reducible is False
    assert settled.reasons == ("Unclear wording: Nobody would ask this.", "Disputed: Nobody would ask this.")


def test_a_rejection_for_an_inadequate_rubric_is_always_reducible(db: None, ana: User, bo: User) -> None:
    case = open_whole_form()
    off = wholly_rejecting("disputed", rubrics=FINE | {"R1": RubricAnswer("inadequate", note="Off.")})
    say(ana, off)
    say(bo, wholly_rejecting("disputed"), wholly_rejecting("disputed"))
    assert outcome(case).reducible is True


SETTLE = Policy(settle_wording=True)


def test_a_correction_unseen_by_the_first_reviewer_is_no_consensus(ana: User, bo: User) -> None:
    case = opened(policy=SETTLE, form=WHOLE_FORM)
    say(ana, wholly_approving())
    better = replace(corrected("Calls it invented."), change_reason="Clearer.")
    say(bo, wholly_approving(), replace(better, declaration="wording"))
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.SECONDARY, ""), "it waits for the first reviewer"
    other = opened(2, policy=SETTLE, form=WHOLE_FORM)
    say(ana, corrected("Calls it invented."))
    say(bo, wholly_approving(), better)
    other.refresh_from_db()
    assert (other.state, other.ground) == (State.APPROVED, Ground.CONSENSUS), "the second reviewer adopted it"


def test_adjudicators_with_different_wordings_vote_once_more(ana: User, bo: User, chen: User, dina: User) -> None:
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
