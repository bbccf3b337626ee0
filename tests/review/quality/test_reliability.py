"""Reliability of reviews: agreement, figures of a physician, progress, and who may see them."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from review.assignments.retraction import retract_reviews
from review.audit.trail import recording_events
from review.calibration import queries
from review.cases import services as cases_services
from review.cases.care import careless_physicians
from review.charts import interval, scatter
from review.charts import lines as charts_lines
from review.models import ActiveInterval, Assignment, CalibrationItem, Case, Retraction, Review, User
from review.quality import activity
from review.quality.agreement import AgreementEstimate, MissingReason
from review.quality.progress import progress, project
from review.quality.reliability import AgreementLine, Dot, RaterPair, Share, Week, agreement_table, figures, my_week
from review.quality.scales import Scale, merged
from review.rules.case_spec import answers_to_json, spec_to_json
from review.rules.questions import Answer, Answers, Choice, Form, Level, Question, RubricAnswer
from review.rules.state_machine import Phase, Policy, Role, State
from tests.api.conftest import Api, api
from tests.conftest import Clock
from tests.review.factories import (
    FORM,
    FULL_FORM,
    approval,
    case_in_adjudication,
    case_in_secondary,
    case_spec,
    claim,
    claim_and_submit,
    correction,
    full_approval,
    full_rejection,
    inadequate_rubric,
    open_case,
    rejection,
    submit,
)
from tests.review.pages import Browse

__all__ = ["api"]


def lines(**filters: str) -> dict[str, AgreementLine]:
    """The lines of the agreement table by criterion; by default those of the two reviewers."""
    return {line.key: line for line in agreement_table(**{"pair": "reviewers", **filters}).lines}


def review_by_both(ana: User, bo: User, first: Answers, second: Answers, **changes: Any) -> Case:
    """A case with both blind answers, the second confirmed unchanged; `changes` are the case's."""
    case = case_in_secondary(ana, first, policy=Policy(inadequate_rejects=False), **changes)
    claim_and_submit(bo, second, second)
    return case


# Agreement
# --------------------------------------------------------------------------------------------------


def test_agreement_by_criterion(ana: User, bo: User) -> None:
    review_by_both(ana, bo, approval(), approval(), number=1)
    review_by_both(ana, bo, approval(), rejection(), number=2)
    review_by_both(ana, bo, correction("Says so."), inadequate_rubric(), number=3)
    by_criterion = lines()
    assert list(by_criterion) == ["verdict", "question.natural", "question.aligned", "rubric", "wording"]
    verdict, rubric = by_criterion["verdict"].agreement, by_criterion["rubric"].agreement
    assert (verdict.cases, verdict.n) == (3, 3)
    assert verdict.raw.value == pytest.approx(1 / 3)
    assert (rubric.cases, rubric.n) == (3, 6)
    assert rubric.raw.value == pytest.approx(5 / 6)
    natural = by_criterion["question.natural"].agreement
    assert (natural.raw.value, natural.kappa.value, natural.kappa.why) == (1, None, MissingReason.ONE_CATEGORY)


def test_the_confirmed_answer_does_not_count(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    claim_and_submit(bo, rejection(), approval(change_reason="The first reviewer is right."))
    assert lines()["verdict"].agreement.raw.value == 0


def test_first_votes_of_adjudicators_are_counted_separately(ana: User, bo: User, chen: User, dina: User) -> None:
    case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    claim_and_submit(chen, approval())
    claim_and_submit(dina, approval())
    agreements = {(line.pair, line.key): line.agreement for line in agreement_table().lines}
    assert agreements[RaterPair.ADJUDICATORS, "verdict"].raw.value == 0
    assert agreements[RaterPair.ADJUDICATORS, "verdict"].n == agreements[RaterPair.REVIEWERS, "verdict"].n == 1


def test_calibration_and_repeats_do_not_count(ana: User, bo: User) -> None:
    case = review_by_both(ana, bo, approval(), approval())
    item = CalibrationItem.objects.create(
        benchmark="invented", title="I", spec=case.spec, expected={}, created_at=timezone.now()
    )
    Case.objects.update(kind=Case.Kind.CALIBRATION, item=item)
    assert lines() == {}
    Case.objects.update(kind=Case.Kind.REPEAT, item=None, repeats=Review.objects.first())
    assert lines() == {}
    Case.objects.update(kind=Case.Kind.WORK, repeats=None)
    assert lines()["verdict"].agreement.n == 1


def test_a_retracted_review_does_not_count(ana: User, bo: User) -> None:
    case = review_by_both(ana, bo, approval(), rejection())
    blind = Review.objects.get(case=case, role=Role.SECONDARY, phase=Phase.COMMIT)
    Retraction.objects.create(review=blind, at=timezone.now())
    assert lines()["verdict"].agreement == lines()["rubric"].agreement
    assert lines()["verdict"].agreement.raw.why is MissingReason.NOTHING
    Review.objects.create(
        case=case,
        assignment=blind.assignment,
        physician=bo,
        role=Role.SECONDARY,
        phase=Phase.COMMIT,
        answers=answers_to_json(approval()),
        verdict="approve",
        inadequate=False,
        submitted_at=timezone.now(),
        attempt=2,
    )
    assert lines()["verdict"].agreement.raw.value == 1


def test_severity_and_scales_are_ordinal(ana: User, bo: User) -> None:
    scale = Question("plain", "Plain", "", tuple(Choice(value, value) for value in "321"))
    form = replace(
        FORM, questions=(*FORM.questions, scale), severities=(Level("none", "None"), Level("death", "Death"))
    )

    def answers(plain: str, severity: str) -> Answers:
        rubrics = {key: RubricAnswer("adequate", severity=severity) for key in ("R1", "R2")}
        return approval(questions={**approval().questions, "plain": Answer(plain)}, rubrics=rubrics)

    review_by_both(ana, bo, answers("1", "none"), answers("3", "death"), form=form)
    by_criterion = lines()
    assert [key for key, line in by_criterion.items() if line.ordinal] == ["question.plain", "severity"]
    assert by_criterion["severity"].agreement.n == 2
    assert by_criterion["severity"].agreement.raw.value == 0


def test_two_corrections_agree_only_in_the_same_words(ana: User, bo: User) -> None:
    one, other = correction("Says that the drug is invented."), correction("Says that the drug is unknown.")
    review_by_both(ana, bo, one, other)
    assert lines()["rubric"].agreement.raw.value == 1  # both say that it needs a correction
    assert lines()["wording"].agreement.n == 2
    assert lines()["wording"].agreement.raw.value == 0.5  # the other rubric stays as it was


def test_the_severity_of_a_rubric_that_one_reviewer_removed_is_not_compared(ana: User, bo: User) -> None:
    findings = {key: RubricAnswer("adequate", severity="death") for key in ("R1", "R2")}
    findings_with_removal = findings | {
        "R1": RubricAnswer("removed", severity="none", note="Says nothing of the trap.")
    }
    review_by_both(
        ana, bo, full_approval(rubrics=findings), full_approval(rubrics=findings_with_removal), form=FULL_FORM
    )
    assert lines()["severity"].agreement.n == 1
    assert lines()["severity"].agreement.raw.value == 1


def test_reasons_of_two_rejections_are_compared(ana: User, bo: User) -> None:
    review_by_both(ana, bo, full_rejection("unclear"), full_rejection("disputed"), form=FULL_FORM, number=1)
    review_by_both(ana, bo, full_rejection("unclear"), full_rejection("unclear"), form=FULL_FORM, number=2)
    review_by_both(ana, bo, full_approval(), full_rejection("unclear"), form=FULL_FORM, number=3)
    reasons = lines()["reason"].agreement
    assert (reasons.n, reasons.raw.value) == (2, 0.5)


def test_an_answer_with_another_severity_does_not_match() -> None:
    first, again = (
        full_approval(rubrics={"R1": RubricAnswer("adequate", severity=level)}) for level in ("mild", "death")
    )
    assert queries.match_answers(first, again) == (4, 5, ("rubric.R1.severity",))


def test_agreement_can_be_filtered_by_benchmark_task_and_pair(ana: User, bo: User) -> None:
    review_by_both(ana, bo, approval(), approval(), number=1, task="report")
    review_by_both(ana, bo, approval(), rejection(), number=2, task="dialogue")
    review_by_both(ana, bo, approval(), rejection(), number=3, benchmark="other")
    table = agreement_table()
    assert (table.benchmarks, table.tasks) == (("invented", "other"), ("dialogue", "report"))
    assert {line.benchmark for line in agreement_table(benchmark="other").lines} == {"other"}
    assert lines(task="report")["verdict"].agreement.raw.value == 1
    assert lines(task="dialogue")["verdict"].agreement.raw.value == 0
    assert agreement_table(pair="adjudicators").lines == ()


def test_an_answer_of_an_older_form_is_still_a_category(ana: User, bo: User) -> None:
    review_by_both(ana, bo, approval(), approval(), number=1)
    newer = Form((Question("fresh", "Fresh", "", (Choice("ja", "Ja"),)),))
    cases_services.open_case(case_spec(2, form=newer))
    by_criterion = lines()
    assert by_criterion["question.fresh"].agreement.n == 0
    assert by_criterion["question.natural"].agreement.n == 1


@pytest.mark.parametrize(
    ("older", "newer", "given"),
    [
        ("0123456789X", "123", [("1", "1"), ("10", "9"), ("2", "3"), ("5", "10"), ("3", "3"), ("1", "2")]),
        ("1234", "1345", [("1", "1"), ("2", "2"), ("5", "4"), ("3", "4"), ("2", "1"), ("5", "5")]),
    ],
    ids=["older numbers are not words", "an older answer has its place on the scale"],
)
def test_answers_of_an_older_form_have_their_place_on_an_ordinal_scale(
    ana: User, bo: User, older: str, newer: str, given: list[tuple[str, str]]
) -> None:
    """Alpha is that of the library krippendorff, of the answers as numbers."""
    import krippendorff

    forms = []
    for values in (older, newer):
        choices = tuple(Choice(value, value) for value in ("10" if letter == "X" else letter for letter in values))
        forms.append(replace(FORM, questions=(*FORM.questions, Question("plain", "Plain", "", choices))))
    for number, answers in enumerate(given, 1):
        form = forms[1] if {*answers} <= {*newer} else forms[0]
        both = [approval(questions={**approval().questions, "plain": Answer(value)}) for value in answers]
        review_by_both(ana, bo, *both, number=number, form=form)
    line = lines()["question.plain"]
    reference = krippendorff.alpha(
        [[float(pair[side]) for pair in given] for side in (0, 1)], level_of_measurement="ordinal"
    )
    assert line.ordinal
    assert line.agreement.alpha.value == pytest.approx(reference)
    assert line.agreement.categories == tuple(sorted(line.agreement.categories, key=int))
    assert line.agreement.used == len({answer for pair in given for answer in pair})


def test_severities_of_an_older_form_keep_their_order(ana: User, bo: User) -> None:
    """`mild` was between none and death; it is not behind both because the newer form lacks it."""
    findings = {level: {key: RubricAnswer("adequate", severity=level) for key in ("R1", "R2")} for level in "nmd"}
    older = replace(FORM, severities=tuple(Level(level, level) for level in "nmd"))
    newer = replace(FORM, severities=tuple(Level(level, level) for level in "nd"))
    for number, (first, second) in enumerate([("n", "m"), ("m", "m"), ("n", "n"), ("d", "d"), ("n", "d")], 1):
        form = older if "m" in (first, second) else newer
        both = [approval(rubrics=findings[level]) for level in (first, second)]
        review_by_both(ana, bo, *both, number=number, form=form)
    assert lines()["severity"].agreement.categories == ("n", "m", "d")


def test_the_newest_form_gives_the_order_also_if_it_is_an_old_one_again() -> None:
    two, four = Scale(("none", "much"), ordinal=True), Scale(("none", "much", "more", "most"), ordinal=True)
    other = Scale(("much", "none"), ordinal=True)
    assert merged([two, other]).answers == ("much", "none")
    assert merged([two, other, two]).answers == ("none", "much")
    assert merged([four, two]).answers == ("none", "much", "more", "most")


def test_words_and_numbers_together_are_no_scale() -> None:
    words, numbers = Scale(("bad", "good", "best")), Scale(("1", "2", "3"), ordinal=True)
    assert not merged([words, numbers]).ordinal
    assert not merged([numbers, words]).ordinal
    assert merged([numbers, Scale(("1", "10"))]) == Scale(("1", "2", "3", "10"), ordinal=True)


def test_the_answers_that_may_be_given_are_those_of_the_cases_that_count(ana: User, bo: User) -> None:
    """A case that nobody compared offers a third answer: it changes no agreement."""
    review_by_both(ana, bo, approval(), approval(), number=1)
    third = replace(FORM.questions[0], choices=(*FORM.questions[0].choices, Choice("unsure", "Unsure")))
    cases_services.open_case(case_spec(2, form=replace(FORM, questions=(third, FORM.questions[1]))))
    natural = lines()["question.natural"].agreement
    assert (natural.categories, natural.used) == (("yes", "no"), 1)


# One physician
# --------------------------------------------------------------------------------------------------


def test_figures_of_one_physician(ana: User, bo: User, chen: User, dina: User, clock: Clock) -> None:
    start = clock.now
    for number, second in enumerate([approval(), approval(), rejection()], 1):
        open_case(number)
        assignment = claim(ana)
        clock.advance(minutes=10 * number)
        activity.record_stretches(ana, assignment.pk, [(clock.now - timedelta(minutes=4 * number), clock.now)])
        submit(assignment, approval())
        claim_and_submit(bo, second, second)
        clock.advance(days=7)
    claim_and_submit(chen, rejection())
    claim_and_submit(dina, rejection())
    result = figures(ana)
    assert result.stages == {State.PRIMARY: 3, State.SECONDARY: 0, State.ADJUDICATION: 0}
    assert (result.minutes, result.measured, result.cases) == (8, 3, 3)
    assert (result.first_pass.part, result.first_pass.whole) == (2, 3)
    assert result.calibration.value is None
    assert result.repeat_verdicts.value is None
    assert sorted(dot.minutes for dot in result.dots) == [4, 8, 12]
    assert {dot.words for dot in result.dots} == {4}
    assert [week.agreed.value for week in result.weeks] == [1, 1, 0]
    assert [week.minutes for week in result.weeks] == [4, 8, 12]
    assert result.weeks[1].monday - result.weeks[0].monday == timedelta(days=7)
    assert figures(dina).stages[State.ADJUDICATION] == 1
    week = my_week(ana, start)
    assert (week.spent, week.agreed.part, week.agreed.whole) == (timedelta(minutes=24), 2, 3)
    assert my_week(ana, clock.now + timedelta(days=1)).agreed.value is None


def test_open_cases_do_not_count_for_the_first_pass(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    claim_and_submit(bo, rejection())
    assert figures(ana).first_pass.whole == 0
    assert figures(bo).first_pass.whole == 0


def review_alone(ana: User, kind: Case.Kind, number: int, answers: Answers, **origin: Any) -> None:
    """Create a case of this kind, reserved for Ana without a second reviewer, and answer it."""
    spec = case_spec(number, policy=Policy(secondary=False))
    case = Case.objects.create(
        kind=kind,
        benchmark="invented",
        lineage=f"{kind}-{number}",
        title="C",
        spec=spec_to_json(spec),
        opened_at=timezone.now(),
        **origin,
    )
    Assignment.objects.create(case=case, role=Role.PRIMARY, reserved_for=ana, opened_at=timezone.now())
    claim_and_submit(ana, answers)


def test_a_repeat_of_a_retracted_review_is_no_sign_of_carelessness(ana: User, adela: User) -> None:
    for number in range(3):
        open_case(number, policy=Policy(secondary=False))
        claim_and_submit(ana, approval())
    originals = list(Review.objects.order_by("pk"))
    for number, original in enumerate(originals, 3):
        review_alone(ana, Case.Kind.REPEAT, number, rejection(), repeats=original)
    [care] = careless_physicians()
    assert (care.repeats, care.changed, "changed" in care.signs) == (3, 3, True)
    with recording_events():
        retract_reviews(originals[:1], adela)
    signs = {care.physician: care.signs for care in careless_physicians()}
    assert "changed" not in signs.get(ana.pk, ()), "two repeats are too few"


def test_calibration_and_repeats_enter_the_figures_a_week_later(ana: User, clock: Clock) -> None:
    case = open_case(1, policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    original = Review.objects.get(case=case)
    expected = answers_to_json(Answers(verdict="reject", questions={"natural": Answer("yes")}))
    item = CalibrationItem.objects.create(
        benchmark="invented", title="I", spec=case.spec, expected=expected, created_at=timezone.now()
    )
    review_alone(ana, Case.Kind.CALIBRATION, 2, approval(), item=item)
    review_alone(ana, Case.Kind.REPEAT, 3, rejection(), repeats=original)
    at_once = figures(ana)  # a figure that moved at once would reveal the copies
    assert (at_once.calibrated, at_once.calibration.whole, at_once.repeat_verdicts.whole) == (0, 0, 0)
    assert (at_once.cases, at_once.stages[State.PRIMARY], [week.cases for week in at_once.weeks]) == (3, 3, [3])
    assert at_once.first_pass.whole == 1, "a copy has no outcome: it looks like an open case"
    clock.advance(days=7)
    later = figures(ana)
    assert (later.calibrated, later.calibration.part, later.calibration.whole) == (1, 1, 2)
    assert (later.repeat_verdicts.part, later.repeat_verdicts.whole) == (0, 1)
    assert (later.repeat_answers.part, later.repeat_answers.whole) == (4, 5)
    assert later.cases == 3
    Retraction.objects.create(review=original, at=timezone.now())
    without_original = figures(ana)
    assert (without_original.repeat_verdicts.whole, without_original.repeat_answers.whole) == (0, 0)


def test_counting_ones_own_answers_does_not_reveal_the_copies(ana: User, browse: Browse, clock: Clock) -> None:
    case = open_case(1, policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    item = CalibrationItem.objects.create(
        benchmark="invented", title="I", spec=case.spec, expected={"verdict": "reject"}, created_at=timezone.now()
    )
    review_alone(ana, Case.Kind.CALIBRATION, 2, approval(), item=item)
    for assignment in Assignment.objects.all():
        start = timezone.now() + timedelta(minutes=5 * assignment.pk)
        ActiveInterval.objects.create(
            assignment=assignment, physician=ana, began_at=start, ended_at=start + timedelta(minutes=2)
        )
    result = figures(ana)
    assert (result.cases, result.measured, len(result.dots)) == (2, 2, 2)
    page = browse(ana).get(reverse("review:me")).content.decode()
    assert "All answered cases count here, including training and repeat cases" in page


# Progress
# --------------------------------------------------------------------------------------------------

TODAY = date(2026, 3, 20)


def closed_on_days(*closed: int) -> dict[date, int]:
    """Cases closed on each of the last days, yesterday last."""
    return {TODAY - timedelta(days=len(closed) - place): n for place, n in enumerate(closed)}


@pytest.mark.plain
def test_two_active_days_are_not_enough_for_a_projection() -> None:
    projection = project(10, closed_on_days(5, 5), TODAY)
    assert (projection.known, projection.pace, projection.finish) == (2, None, None)


@pytest.mark.plain
def test_the_projection_uses_the_last_seven_active_days() -> None:
    projection = project(40, closed_on_days(900, 900, 2, 3, 4, 4, 4, 5, 6), TODAY)
    assert (projection.known, projection.pace, projection.slow, projection.fast) == (7, 4, 3.5, 4.5)
    assert projection.finish == TODAY + timedelta(days=10)
    assert projection.early == TODAY + timedelta(days=9)
    assert projection.late == TODAY + timedelta(days=12)


@pytest.mark.plain
def test_days_of_rest_stretch_the_projection() -> None:
    alternate_days = {TODAY - timedelta(days=2 * back): 4 for back in range(1, 8)}
    assert project(40, alternate_days, TODAY).finish == TODAY + timedelta(days=20)


@pytest.mark.plain
def test_without_closed_cases_no_finish_is_projected() -> None:
    projection = project(10, closed_on_days(0, 0, 0, 9), TODAY)
    assert (projection.pace, projection.finish, projection.late) == (0, None, None)
    assert projection.early is not None


def test_progress_counts_real_cases_only(ana: User, bo: User, clock: Clock) -> None:
    review_by_both(ana, bo, approval(), approval(), number=1)
    retracted = case_in_secondary(ana, number=3)
    Retraction.objects.create(review=Review.objects.get(case=retracted), at=timezone.now())
    open_case(2, specialty="Cardiology")
    review_alone(ana, Case.Kind.REPEAT, 9, approval(), repeats=Review.objects.first())
    result = progress()
    today = result.days[-1]
    assert (today.day, today.reviews, today.closed) == (
        timezone.localdate(),
        2,
        1,
    )  # the confirmation is not a third review
    assert len(result.days) == 30
    assert sum(day.reviews for day in result.days) == 2
    assert result.backlog["Cardiology"][State.PRIMARY] == 1
    assert sum(result.backlog[""].values()) == 1
    assert result.projection.open == 2
    assert result.projection.known == 0  # today is not complete yet
    assert progress("another").projection.open == 0


# Pages and API
# --------------------------------------------------------------------------------------------------


def test_physicians_see_their_own_figures_only(
    browse: Browse, api: Api, ana: User, bo: User, adela: User, rui: User
) -> None:
    pages = [reverse("review:reviewer", args=[bo.pk]), reverse("review:agreement"), reverse("review:progress")]
    addresses = [reverse("api:reviewer", args=[bo.pk]), reverse("api:review-agreement")]
    for user, expected in ((ana, 403), (bo, 403), (rui, 403), (adela, 200)):
        assert [browse(user).get(page).status_code for page in pages] == [expected] * 3
        assert [api(user).get(address).status_code for address in addresses] == [expected] * 2
    for user, expected in ((ana, 200), (bo, 200), (rui, 403), (adela, 403)):
        assert browse(user).get(reverse("review:me")).status_code == expected
        assert api(user).get(reverse("api:reviewer-me")).status_code == expected


def test_only_physicians_have_figures(browse: Browse, api: Api, adela: User, rui: User) -> None:
    assert browse(adela).get(reverse("review:reviewer", args=[rui.pk])).status_code == 404
    assert api(adela).get(reverse("api:reviewer", args=[rui.pk])).status_code == 404


def test_the_page_of_ones_own_figures_shows_nobody_else(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana)
    assert "No cases answered yet" in browse(bo).get(reverse("review:me")).content.decode()
    page = browse(ana).get(reverse("review:me")).content.decode()
    assert "primary 1" in page
    assert "Bo Berg" not in page


def test_the_agreement_page_explains_undefined_figures(browse: Browse, adela: User, ana: User, bo: User) -> None:
    address = reverse("review:agreement")
    assert "No answers to compare yet" in browse(adela).get(address).content.decode()
    review_by_both(ana, bo, approval(), approval())
    page = browse(adela).get(address).content.decode()
    assert "undefined: all answers were the same" in page
    assert "κ breaks down" in page
    nothing = browse(adela).get(address, {"pair": "adjudicators"}).content.decode()
    assert "No case that matches this filter has both answers." in nothing


def test_the_agreement_page_begins_with_the_verdicts_of_all_benchmarks(
    browse: Browse, adela: User, ana: User, bo: User
) -> None:
    review_by_both(ana, bo, approval(), approval(), number=1)
    address = reverse("review:agreement")
    only = browse(adela).get(address).content.decode()
    assert "Rubric adequacy" in only, "of one benchmark, everything is shown"
    assert "as generated · corrected · corrected in other words · added · absent" in only
    Case.objects.update(benchmark="other")
    review_by_both(ana, bo, approval(), approval(), number=2)
    both = browse(adela).get(address).content.decode()
    assert "Rubric adequacy" not in both
    assert "?benchmark=other" in both
    assert "Rubric adequacy" in browse(adela).get(address, {"benchmark": "other"}).content.decode()


def test_the_api_returns_null_and_a_reason_for_undefined_agreement(api: Api, adela: User, ana: User, bo: User) -> None:
    review_by_both(ana, bo, approval(), approval())
    answer = api(adela).get(reverse("api:review-agreement"), {"pair": "reviewers"}).json()
    verdict = answer["lines"][0]
    assert verdict["key"] == "verdict"
    assert verdict["agreement"]["kappa"] == {"value": None, "low": None, "high": None, "why": "one-category"}
    assert verdict["agreement"]["raw"]["value"] == 1
    assert api(adela).get(reverse("api:review-agreement"), {"pair": "all"}).status_code == 400


def test_the_api_returns_ones_own_figures(api: Api, ana: User) -> None:
    case_in_secondary(ana)
    body = api(ana).get(reverse("api:reviewer-me")).json()
    assert body["stages"] == {"primary": 1, "secondary": 0, "adjudication": 0}
    assert body["minutes"] is None
    assert body["first_pass"] == {"part": 0, "whole": 0, "value": None}


def test_the_workbench_shows_ones_own_week(browse: Browse, ana: User, bo: User, clock: Clock) -> None:
    open_case()
    assignment = claim(ana)
    clock.advance(minutes=90)
    activity.record_stretches(ana, assignment.pk, [(clock.now - timedelta(minutes=65), clock.now)])
    assignment = claim(ana)
    submit(assignment, approval())
    claim_and_submit(bo, approval(), approval())
    page = browse(ana).get(reverse("review:workbench")).content.decode()
    assert ">1:05<" in page
    assert "1 of 1 closed cases" in page


def test_the_progress_page_says_when_data_are_missing(browse: Browse, adela: User) -> None:
    page = browse(adela).get(reverse("review:progress")).content.decode()
    assert "not enough data: 0 active days" in page
    assert "No cases are waiting for review." in page


def review_cases(ana: User, bo: User, clock: Clock, numbers: range) -> None:
    for number in numbers:
        open_case(number)
        assignment = claim(ana)
        clock.advance(minutes=9)
        activity.record_stretches(ana, assignment.pk, [(clock.now - timedelta(minutes=3), clock.now)])
        submit(assignment, approval())
        claim_and_submit(bo, *[rejection() if number % 3 == 0 else approval()] * 2)
        clock.advance(days=2)


@pytest.mark.parametrize(
    ("name", "most"),
    [("agreement", 14), ("progress", 12), ("me", 12), ("reviewer", 15)],  # also signs of careless work, set aside
)
def test_the_number_of_queries_does_not_grow_with_the_reviews(
    browse: Browse, adela: User, ana: User, bo: User, clock: Clock, name: str, most: int
) -> None:
    address = reverse(f"review:{name}", args=[ana.pk] if name == "reviewer" else [])
    client = browse(ana if name == "me" else adela)
    client.get(address)  # the first request also loads the session
    counts = []
    for numbers in (range(1, 3), range(3, 9)):
        review_cases(ana, bo, clock, numbers)
        client.force_login(ana if name == "me" else adela)
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1] <= most


# Charts
# --------------------------------------------------------------------------------------------------


@pytest.mark.plain
def test_one_long_case_does_not_flatten_the_others() -> None:
    chart = scatter.scatter([*(Dot(100 * n, n) for n in range(1, 20)), Dot(500, 400)])
    assert chart.clipped == 1
    assert chart.y_ticks[-1].text == "20"
    assert min(y for _x, y in chart.dots) == chart.y_ticks[-1].at == chart.top


@pytest.mark.plain
def test_a_week_without_a_figure_is_a_gap() -> None:
    shares = [Share(1, 2), Share(2, 2), Share(0, 0), Share(0, 4), Share(1, 4)]
    weeks = [Week(TODAY + timedelta(weeks=n), 1, None, share) for n, share in enumerate(shares)]
    chart = charts_lines.drift(weeks)
    assert (len(chart.agreed.paths), len(chart.agreed.dots)) == (2, 4)
    assert (chart.minutes.paths, chart.minutes.dots) == ((), ())


@pytest.mark.plain
def test_an_undefined_figure_has_no_mark_and_a_negative_one_is_drawn_at_zero() -> None:
    assert interval.mark(AgreementEstimate(None, why=MissingReason.NOTHING)) is None
    drawn = interval.mark(AgreementEstimate(-0.2, -0.4, 0.5))
    assert drawn is not None
    assert drawn.x == drawn.low_x == 4
    assert drawn.high_x == interval.MARK / 2
