"""The consolidated result of several physicians' answers: rubrics, evidence, reasons."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.cases import queries
from review.models import Case, User
from review.rules.consolidation import (
    SettledRubric,
    added_wordings,
    is_reducible,
    median_level,
    merged_citations,
    settled_rubrics,
)
from review.rules.questions import AddedRubric, Answers, RubricAnswer
from review.rules.state_machine import Ground, Policy, State
from tests.review.factories import (
    CITATION,
    FULL_FORM,
    claim_and_submit,
    full_approval,
    full_rejection,
    open_case,
)

FINE = dict(full_approval().rubrics)
GONE = RubricAnswer("removed", note="R2 says it.")
OWN = AddedRubric("Names the class of drugs.", ("A1",), "death")
OTHER = AddedRubric("Asks what else is taken.", ("C2",), "mild")
R1, R2 = (SettledRubric(r.key, r.criterion, r.tags, "mild") for r in FULL_FORM.rubrics)


def without_severities(settled: tuple[SettledRubric, ...]) -> tuple[SettledRubric, ...]:
    """The rubrics without the severities of the individual raters."""
    return tuple(replace(rubric, severities=()) for rubric in settled)


def corrected(wording: str, severity: str = "mild", **changes: RubricAnswer) -> Answers:
    return full_approval(rubrics=FINE | {"R1": RubricAnswer("corrected", wording, severity=severity)} | changes)


@pytest.mark.parametrize(
    ("deciding", "settled"),
    [
        ([full_approval()], (R1, R2)),
        (
            [corrected(" Calls it invented. ", "death")],
            (replace(R1, criterion="Calls it invented.", severity="death"), R2),
        ),
        (
            [full_approval(rubrics=FINE | {"R1": GONE})],
            (SettledRubric("R1", R1.criterion, R1.tags, removed=True), R2),
        ),
        ([full_approval(added=(OWN,))], (R1, R2, SettledRubric("P1", OWN.criterion, ("A1",), "death", False, True))),
        # two adjudicators, sealed from each other
        ([corrected("Calls it invented."), full_approval()], (replace(R1, criterion="Calls it invented."), R2)),
        (
            [corrected("Calls it invented."), corrected("Calls it unknown.")],
            (replace(R1, criterion="Calls it unknown."), R2),
        ),
        ([full_approval(rubrics=FINE | {"R1": GONE}), full_approval()], (R1, R2)),
        (
            [full_approval(rubrics=FINE | {"R1": GONE}), corrected("Calls it invented.")],
            (replace(R1, criterion="Calls it invented."), R2),
        ),
        (
            [full_approval(), corrected("Calls it invented.", "death")],
            (replace(R1, criterion="Calls it invented.", severity="death"), R2),
        ),
        (
            [full_approval(added=(OWN,)), full_approval(added=(OTHER, replace(OWN, severity="none")))],
            (
                R1,
                R2,
                SettledRubric("P1", OWN.criterion, ("A1",), "death", False, True),
                SettledRubric("P2", OTHER.criterion, ("C2",), "mild", False, True),
            ),
        ),
        (  # one removed a rubric and added it again in the same words: it is kept once
            [
                full_approval(rubrics=FINE | {"R1": GONE}, added=(replace(OWN, criterion=R1.criterion),)),
                full_approval(),
            ],
            (R1, R2),
        ),
    ],
)
def test_the_deciding_answers_settle_the_rubrics(deciding: list[Answers], settled: tuple[SettledRubric, ...]) -> None:
    assert without_severities(settled_rubrics(FULL_FORM, deciding)) == settled


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
    assert median_level(FULL_FORM, chosen) == level


def test_all_raters_count_and_every_severity_is_kept() -> None:
    answers = [corrected("Calls it invented.", level) for level in ("none", "none", "death")]
    (first, _second) = settled_rubrics(FULL_FORM, answers[-1:], answers)
    assert (first.severity, first.severities) == ("none", ("none", "none", "death"))


def test_an_added_rubric_gets_no_key_of_the_form() -> None:
    form = replace(FULL_FORM, rubrics=(replace(FULL_FORM.rubrics[0], key="P1"),))
    answers = full_approval(rubrics={"P1": FINE["R1"]}, added=(OWN,))
    assert [rubric.key for rubric in settled_rubrics(form, [answers])] == ["P1", "P2"]


def test_merged_citations_contain_each_source_once() -> None:
    doi = replace(CITATION, kind="doi", reference="https://doi.org/10.1000/ABC", section="")
    one = full_approval(citations=(CITATION, doi))
    other = full_approval(citations=(replace(doi, reference="10.1000/abc", passage="Another line."),))
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
    assert is_reducible(FULL_FORM, [full_rejection(code) for code in codes]) is reducible


FINDINGS = st.one_of(
    st.builds(RubricAnswer, st.just("adequate"), severity=st.sampled_from(["none", "mild", "death"])),
    st.builds(RubricAnswer, st.just("corrected"), st.sampled_from(["One.", "Two."]), severity=st.just("mild")),
    st.just(GONE),
)
APPROVALS = st.builds(
    lambda one, two, added: full_approval(rubrics={"R1": one, "R2": two}, added=tuple(added)),
    FINDINGS,
    FINDINGS,
    st.lists(st.sampled_from([OWN, OTHER]), max_size=2, unique=True),
).filter(lambda answers: answers.added or any(f.value != "removed" for f in answers.rubrics.values()))


@given(st.lists(APPROVALS, min_size=1, max_size=2))
def test_an_approved_sample_keeps_at_least_one_rubric_and_each_has_a_severity(deciding: list[Answers]) -> None:
    settled = settled_rubrics(FULL_FORM, deciding)
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


# ------------------------------------------------------------------------------------ which answers


def open_whole_form(**changes: Policy) -> Case:
    return open_case(form=FULL_FORM, **changes)  # type: ignore[arg-type]


def outcome(case: Case) -> queries.SettledCase:
    case.refresh_from_db()
    return queries.settled_case(case)


def test_the_confirming_secondary_decides_which_additions_are_kept(db: None, ana: User, bo: User) -> None:
    case = open_whole_form()
    claim_and_submit(ana, full_approval(added=(OWN,), rubrics=FINE | {"R1": GONE}))
    claim_and_submit(bo, full_approval(), full_approval(added=(OTHER,), change_reason="This one is better."))
    settled = outcome(case)
    assert [rubric.criterion for rubric in settled.rubrics if rubric.added_by_physician] == [OTHER.criterion]
    assert [rubric.key for rubric in settled.rubrics if not rubric.removed] == ["R1", "R2", "P1"], (
        "the second reviewer saw the removal and did not adopt it"
    )


def test_a_secondary_who_stays_blind_removes_no_additions_of_the_primary(db: None, ana: User, bo: User) -> None:
    case = open_whole_form(policy=Policy(secondary_confirms=False))
    claim_and_submit(ana, full_approval(added=(OWN,), citations=(replace(CITATION, section="1"),)))
    claim_and_submit(bo, full_approval(added=(OTHER,)))
    settled = outcome(case)
    assert [rubric.criterion for rubric in settled.rubrics[2:]] == [OWN.criterion, OTHER.criterion]
    assert [citation.section for citation in settled.citations] == ["1", "2.1"]


def test_the_answers_of_adjudicators_replace_those_of_both_reviewers(
    db: None, ana: User, bo: User, chen: User, dina: User
) -> None:
    case = open_whole_form()
    claim_and_submit(ana, full_approval(added=(OWN,), citations=(replace(CITATION, section="1"),)))
    against = full_rejection("disputed", citations=(replace(CITATION, section="9"),))
    claim_and_submit(bo, against, against)
    claim_and_submit(chen, corrected("Calls it invented."))
    claim_and_submit(dina, full_approval(rubrics=FINE | {"R2": GONE}))
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
    claim_and_submit(ana, full_rejection(first))
    claim_and_submit(bo, full_rejection(second), full_rejection(second))
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
    claim_and_submit(ana, full_approval())
    claim_and_submit(bo, full_rejection("unclear"), full_rejection("unclear"))
    claim_and_submit(chen, full_rejection("disputed"))
    claim_and_submit(dina, full_rejection("disputed"))
    settled = outcome(case)
    assert settled.reducible is False
    assert settled.reasons == ("Unclear wording: Nobody would ask this.", "Disputed: Nobody would ask this.")


def test_a_rejection_for_an_inadequate_rubric_is_always_reducible(db: None, ana: User, bo: User) -> None:
    case = open_whole_form()
    off = full_rejection("disputed", rubrics=FINE | {"R1": RubricAnswer("inadequate", note="Off.")})
    claim_and_submit(ana, off)
    claim_and_submit(bo, full_rejection("disputed"), full_rejection("disputed"))
    assert outcome(case).reducible is True


SETTLE = Policy(settle_wording=True)


def test_a_correction_unseen_by_the_first_reviewer_is_no_consensus(ana: User, bo: User) -> None:
    case = open_case(policy=SETTLE, form=FULL_FORM)
    claim_and_submit(ana, full_approval())
    better = replace(corrected("Calls it invented."), change_reason="Clearer.")
    claim_and_submit(bo, full_approval(), replace(better, declaration="wording"))
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.SECONDARY, ""), "it waits for the first reviewer"
    other = open_case(2, policy=SETTLE, form=FULL_FORM)
    claim_and_submit(ana, corrected("Calls it invented."))
    claim_and_submit(bo, full_approval(), better)
    other.refresh_from_db()
    assert (other.state, other.ground) == (State.APPROVED, Ground.CONSENSUS), "the second reviewer adopted it"


def test_adjudicators_with_different_wordings_vote_once_more(ana: User, bo: User, chen: User, dina: User) -> None:
    case = open_case(policy=SETTLE, form=FULL_FORM)
    against = full_rejection()
    claim_and_submit(ana, full_approval())
    claim_and_submit(bo, against, against)
    claim_and_submit(chen, corrected("Calls it invented."))
    claim_and_submit(dina, full_approval())
    case.refresh_from_db()
    assert case.state == State.ADJUDICATION
    claim_and_submit(chen, corrected("Calls it invented."))
    claim_and_submit(dina, corrected("Calls it invented."))
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.APPROVED, Ground.ADJUDICATED)
    assert queries.settled_case(case).rubrics[0].criterion == "Calls it invented."


def test_added_rubrics_take_no_key_of_the_form() -> None:
    """A form may call its own rubrics P1."""
    rated = {"P1": {"value": "adequate"}}
    raters: list[dict[str, Any]] = [{"rubrics": rated, "added": [{"criterion": "Ask."}]}, {"rubrics": rated}]
    assert added_wordings(raters) == [{"P2": "added"}, {"P2": "absent"}]
