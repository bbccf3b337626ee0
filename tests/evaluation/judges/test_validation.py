"""Validation of a judge by physicians.

Responses are drawn by stratum and judged blind by two physicians, with a third where they differ;
the rate of the run is then corrected for the errors of the judge.
"""

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import errors
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.judges import content, costs, queries, services, summary
from evaluation.judges.draw import DrawSize, allocation, draw, parse_amount
from evaluation.models import Judgment, Response, Run, RunEndpoint, Validation, ValidationItem, VoidVerdict
from evaluation.reports import documents, formats
from evaluation.reports import queries as reports_queries
from evaluation.runs import services as runs_services
from evaluation.runs.rows import chains
from evaluation.runs.settings import RunSettings
from generation.models import Release
from generation.models.work import Work
from review.access import visibility
from review.assignments import claims
from review.assignments import services as assignments
from review.management.simulated_physicians import work_queue
from review.models import Assignment, Case, User
from review.rules.permissions import UserRole
from review.rules.questions import Answer, Answers
from review.rules.state_machine import Ground, Role
from review.turns.turn import readable_reviews, turn_of
from tests.engine import Manage, bare_release, endpoint
from tests.review.factories import account

pytestmark = pytest.mark.django_db
Status = Work.Status
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def release(db: None) -> Release:
    release = bare_release(*[("dialogue", [["A1"], ["C2"], ["A3"]])] * 40)
    Assignment.objects.update(hold=Assignment.Hold.DONE)  # of the case in which the samples were reviewed
    return release


def finished_run(release: Release, fails: Any, *models: str) -> Run:
    """A finished run; `fails(rubric, model)` says whether the judge calls a criterion failed."""
    settings = RunSettings(
        release=release, endpoints=[endpoint(NOWHERE, model) for model in models], judge=endpoint(NOWHERE, "the-judge")
    )
    run = runs_services.launch_run(settings)
    judgments = []
    for response in Response.objects.filter(run=run).order_by("pk").select_related("endpoint", "sample"):
        Response.objects.filter(pk=response.pk).update(
            status=Status.DONE, outcome="answered", text=f"Take {response.pk} drops."
        )
        for rubric in response.sample.rubrics.order_by("pk"):
            verdict = "not_met" if fails(rubric.pk, response.endpoint.name) else "met"
            judgments.append(Judgment(run=run, response=response, rubric=rubric, status=Status.DONE, verdict=verdict))
    Judgment.objects.bulk_create(judgments)
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED, finished_at=timezone.now())
    run.refresh_from_db()
    return run


def create_physicians(count: int) -> list[User]:
    return [account(f"doc{n}") for n in range(count)]


def submit_answers(physician: User, assignment: Assignment, answer_to: Any) -> None:
    """Submit a review in which `answer_to(rubric)` gives the answer on each rubric."""
    form = assignment.case.frozen.form
    answers = {question.key: Answer(answer_to(content.rubric_pk(question.key))) for question in form.questions}
    assert assignment.token is not None
    assignments.submit(turn_of(physician, assignment.pk), assignment.token, Answers(answers))


def answer_queue(physicians: list[User], answer_to: Any) -> None:
    """Let the physicians take turns until no case is left; `answer_to(physician, rubric, role)`."""
    idle = 0
    while idle < len(physicians):
        for physician in physicians:
            assignment = claims.claim_next(physician)
            idle = 0 if assignment else idle + 1
            if assignment is not None:
                role = assignment.role
                submit_answers(
                    physician, assignment, lambda rubric, who=physician, role=role: answer_to(who, rubric, role)
                )


# ----------------------------------------------------------------------------------------- the draw


@pytest.mark.plain
def test_strata_are_drawn_alike_and_weighted_back() -> None:
    population = [(n, ("m", n % 50 == 0)) for n in range(500)]
    items = draw(population, DrawSize(30), seed=1)
    assert Counter(item.weight for item in items) == {1.0: 10, 490 / 20: 20}
    assert sum(item.weight for item in items) == pytest.approx(500)
    assert items == draw(population[::-1], DrawSize(30), seed=1)
    assert items != draw(population, DrawSize(30), seed=2)
    rare = [item.pk % 50 == 0 for item in items]
    assert rare != sorted(rare)  # the order does not reveal the stratum
    assert allocation({"a": 2, "b": 100}, 7) == {"a": 2, "b": 5}
    assert allocation({"a": 2, "b": 3}, 99) == {"a": 2, "b": 3}


@pytest.mark.plain
def test_a_share_is_drawn_of_each_stratum() -> None:
    population = [(n, ("m", n % 50 == 0)) for n in range(500)]
    items = draw(population, parse_amount(" 10 % "), seed=1)
    assert Counter(item.weight for item in items) == {10.0: 50}
    assert parse_amount("10%").per_stratum({"a": 300, "b": 4}) == {"a": 30, "b": 1}, "at least one of a rare stratum"
    assert parse_amount("100%").per_stratum({"a": 300, "b": 4}) == {"a": 300, "b": 4}
    assert parse_amount("7") == DrawSize(7)
    for invalid in ("", "0%", "0.00%", "101%", "-5", "10 percent", "1e3", "10%%", "%"):
        with pytest.raises(ValueError, match="^" + re.escape(invalid)):
            parse_amount(invalid)


# ----------------------------------------------------------------------------------- the correction


@pytest.mark.both
def test_the_true_rate_is_recovered_from_a_noisy_judge(release: Release) -> None:
    """The judge errs often and unevenly; physicians who do not err recover the known true rate."""
    dice = Random(7)
    truth = {
        (rubric, model): dice.random() < rate
        for model, rate in (("bad", 0.6), ("good", 0.1))
        for rubric in release.samples.order_by("rubrics").values_list("rubrics", flat=True)
    }

    def fails(rubric: int, model: str) -> bool:
        return dice.random() < (0.7 if truth[rubric, model] else 0.2)  # sensitivity .7, specificity .8

    run = finished_run(release, fails, "bad", "good")
    services.start_validation(run.pk, n=80, seed=3)
    models = dict(ValidationItem.objects.values_list("case", "response__endpoint__name"))
    physicians = create_physicians(2)
    while any(claimed := [claims.claim_next(physician) for physician in physicians]):
        for physician, assignment in zip(physicians, claimed, strict=True):
            if assignment is not None:
                name = models[assignment.case_id]
                submit_answers(physician, assignment, lambda rubric, m=name: "not-met" if truth[rubric, m] else "met")
    report = queries.validation_report(run)
    assert report is not None
    assert (report.drawn, report.closed, report.third, report.complete) == (80, 80, 0, True)
    estimates = {estimate.endpoint: estimate for estimate in report.models}
    for model in ("bad", "good"):
        true_rate = sum(truth[key] for key in truth if key[1] == model) / 120
        estimate = estimates[model]
        assert estimate.corrected.value == pytest.approx(true_rate, abs=1e-9) if estimate.judge.n == 120 else True
        assert estimate.corrected.low is not None
        assert estimate.corrected.high is not None
        assert estimate.corrected.low <= true_rate <= estimate.corrected.high
        assert estimate.corrected.value is not None
        assert estimate.raw.value is not None
        assert abs(estimate.corrected.value - true_rate) < abs(estimate.raw.value - true_rate)
        assert estimate.physicians.ac1.value == 1.0
        assert estimate.judge.sensitivity.value == pytest.approx(0.7, abs=0.15)
        assert estimate.judge.specificity.value == pytest.approx(0.8, abs=0.15)


def test_models_of_equal_truth_differ_by_the_judge_and_not_once_corrected(release: Release) -> None:
    """A fifth of both fails; the judge overlooks a third of it in one, and adds to the other."""
    rubrics = list(release.samples.order_by("rubrics").values_list("rubrics", flat=True))
    failed, place = set(rubrics[::5]), {rubric: position for position, rubric in enumerate(rubrics)}

    def fails(rubric: int, model: str) -> bool:
        overlooked, added = place[rubric] % 15 == 0, place[rubric] % 5 == 1
        return (rubric in failed and not overlooked) if model == "spared" else (rubric in failed or added)

    run = finished_run(release, fails, "spared", "charged")
    services.start_validation(run.pk, n=80, seed=1)
    answer_queue(create_physicians(2), lambda _who, rubric, _role: "not-met" if rubric in failed else "met")
    result = summary.validation(run) or pytest.fail("none")
    [pair] = result["comparisons"]
    assert (pair["first"], pair["second"], pair["clusters"]) == ("spared", "charged", 40)
    assert pair["raw"]["value"] == pytest.approx((16 - 48) / 120)
    assert pair["raw"]["p_adjusted"] < 0.001
    assert pair["corrected"]["value"] == pytest.approx(0.0, abs=1e-12)
    assert pair["corrected"]["low"] < 0 < pair["corrected"]["high"]
    assert pair["corrected"]["p_adjusted"] > 0.2
    report = reports_queries.report(run)
    [raw] = [each for each in report.numbers.comparisons if each.rate == result["rate"]]
    assert pair["raw"] == pytest.approx(
        {"value": raw.difference, "low": raw.low, "high": raw.high, "p": raw.p, "p_adjusted": raw.p_adjusted}
    )
    [line] = [
        line
        for line in csv.DictReader(io.StringIO(formats.as_csv(report, "comparisons")))
        if line["rate"] == result["rate"] and not line["facet"]
    ]
    assert float(line["difference"]) == pytest.approx(-32 / 120)
    assert float(line["corrected_high"]) == pytest.approx(pair["corrected"]["high"])
    interval = f"({pair['corrected']['low']:+.3f}–{pair['corrected']['high']:+.3f})"
    assert interval in documents.as_markdown(report)
    assert interval.replace("–", "--") in documents.as_latex(report)
    assert formats.as_dict(report)["validation"]["comparisons"] == result["comparisons"]


def test_a_share_of_the_responses_recovers_the_true_rate(release: Release) -> None:
    dice = Random(5)
    rubrics = list(release.samples.order_by("rubrics").values_list("rubrics", flat=True))
    truth = {rubric: dice.random() < 0.3 for rubric in rubrics}
    run = finished_run(release, lambda rubric, _m: dice.random() < (0.75 if truth[rubric] else 0.15), "m-1")
    services.start_validation(run.pk, n=24, seed=1)
    answer_queue(create_physicians(2), lambda _who, rubric, _role: "not-met" if truth[rubric] else "met")
    [estimate] = (queries.validation_report(run) or pytest.fail("none")).models
    true_rate = sum(truth.values()) / len(truth)
    assert estimate.judge.clusters == 24
    assert estimate.corrected.low is not None
    assert estimate.corrected.high is not None
    assert estimate.corrected.low <= true_rate <= estimate.corrected.high


# ------------------------------------------------------------------------------ the third physician


def test_a_third_physician_decides_where_two_differ(release: Release) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=2, seed=0)
    first = ValidationItem.objects.order_by("pk")[0]
    disputed = {content.rubric_pk(question.key) for question in first.case.frozen.form.questions}

    def answer_to(_who: User, rubric: int, role: str) -> str:
        if rubric in disputed:
            return {"primary": "met", "secondary": "unclear", "adjudicator-1": "met"}[role]
        return "not-met"

    answer_queue(create_physicians(4), answer_to)
    grounds = {item.case_id: item.case.ground for item in ValidationItem.objects.select_related("case")}
    assert grounds.pop(first.case_id) == Ground.ADJUDICATED
    assert set(grounds.values()) == {Ground.CONSENSUS}
    roles = Assignment.objects.filter(case=first.case).order_by("pk").values_list("role", flat=True)
    assert list(roles) == [Role.PRIMARY, Role.SECONDARY, Role.ADJUDICATOR_1]
    report = queries.validation_report(run)
    assert report is not None
    assert (report.third, report.closed) == (1, 2)


def test_the_third_physician_sees_neither_answer_and_nobody_learns_that_they_differ(
    release: Release, settings: Any
) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 0
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=2, seed=0)
    one, two, three = create_physicians(3)
    first = claims.claim_next(one)
    assert first is not None
    submit_answers(one, first, lambda _rubric: "met")
    Case.objects.exclude(pk=first.case_id).update(priority=-1)
    Assignment.objects.exclude(case=first.case_id).update(priority=-1)
    for physician in (two, three):
        assignment = claims.claim_next(physician)
        assert assignment is not None
        assert assignment.case_id == first.case_id
        assert not readable_reviews(physician, assignment.case)
        submit_answers(physician, assignment, lambda _rubric: "not-met")
    assert {visibility.submission_effect(review) for review in visibility.counted_reviews()} == {"submitted"}


def test_unclear_answers_correct_nothing(release: Release) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=4, seed=0)
    answer_queue(create_physicians(2), lambda _who, _rubric, _role: "unclear")
    [estimate] = (queries.validation_report(run) or pytest.fail("none")).models
    assert (estimate.judge.n, estimate.corrected.value, estimate.corrected.why) == (0, None, "nothing")


def test_responses_that_a_tool_marked_void_since_are_in_no_number(release: Release, tmp_path: Path) -> None:
    """Neither of those drawn nor of those decided, on the page and in the check of a bundle."""
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=4, seed=0)
    answer_queue(create_physicians(2), lambda _who, _rubric, _role: "met")
    assert (summary.validation(run) or pytest.fail("none"))["drawn"] == 4
    drawn = ValidationItem.objects.order_by("pk")[0].response
    VoidVerdict.objects.create(run=run, response=drawn, reason="invalidated", at=timezone.now())
    result = summary.validation(run) or pytest.fail("none")
    [model] = result["models"]
    assert (result["drawn"], result["closed"], model["judge"]["n"]) == (3, 3, 9)
    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []


def test_each_data_set_is_corrected_by_itself(db: None) -> None:
    """The judge errs on reports only."""
    release = bare_release(*([("dialogue", [["A1"]])] * 15 + [("report", [["A1"]])] * 15))
    Assignment.objects.update(hold=Assignment.Hold.DONE)
    reports = set(release.samples.filter(task="report").values_list("rubrics__pk", flat=True))
    run = finished_run(release, lambda rubric, _m: rubric in reports or rubric % 3 == 0, "m-1")
    services.start_validation(run.pk, n=30, seed=0)
    answer_queue(create_physicians(2), lambda _who, rubric, _role: "not-met" if rubric % 3 == 0 else "met")
    result = summary.validation(run) or pytest.fail("none")
    [model] = result["models"]
    by_dataset = {dataset["dataset"]: dataset for dataset in model["datasets"]}
    assert by_dataset["report"]["raw"]["value"] == 1.0
    assert by_dataset["report"]["corrected"]["value"] == pytest.approx(len([pk for pk in reports if pk % 3 == 0]) / 15)
    assert by_dataset["dialogue"]["corrected"]["value"] == pytest.approx(by_dataset["dialogue"]["raw"]["value"])
    report = reports_queries.report(run)
    for text, separator in ((documents.as_markdown(report), " | "), (documents.as_latex(report), " & ")):
        [row] = [
            line
            for line in text.splitlines()
            if separator.join(["m-1", by_dataset["report"]["label"], "1.000"]) in line
        ]
        assert f"{by_dataset['report']['corrected']['value']:.3f}" in row


def test_simulated_physicians_can_validate_a_judge(release: Release) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=6, seed=0)
    physicians = [account(f"sim{n}", simulated=True) for n in range(4)]
    assert work_queue(1, None, physicians).reviews >= 12
    result = summary.validation(run)
    assert result is not None
    assert (result["closed"], result["simulated_physicians"], result["complete"]) == (6, True, True)
    json.dumps(result)


@pytest.mark.both
def test_models_added_after_the_draw_are_drawn_later(release: Release) -> None:
    """Strata belong to one model, so the weights and numbers of other models do not change."""
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    first = services.start_validation(run.pk, n=8, seed=3)
    answer_queue(create_physicians(2), lambda _who, rubric, _role: "not-met" if rubric % 3 == 0 else "met")
    before = (summary.validation(run) or pytest.fail("none"))["models"]
    other = endpoint(NOWHERE, "m-2")
    RunEndpoint.objects.create(run=run, endpoint=other)
    for response in Response.objects.filter(run=run):
        judgments = list(response.judgments.all())
        response.pk, response.endpoint, response._state.adding = None, other, True
        response.save()
        for judgment in judgments:
            judgment.pk, judgment.response, judgment._state.adding = None, response, True
            judgment.save()
    assert (summary.validation(run) or pytest.fail("none"))["not_drawn"] == ("m-2",)
    again = services.start_validation(run.pk, n=10, seed=99)
    assert (again.pk, again.seed, again.items.count()) == (first.pk, 3, 18)
    items = ValidationItem.objects.filter(response__endpoint=other)
    assert items.count() == 10
    assert sum(item.weight for item in items) == pytest.approx(Response.objects.filter(endpoint=other).count())
    after = summary.validation(run) or pytest.fail("none")
    assert after["models"][: len(before)] == before
    assert after["not_drawn"] == ()
    with pytest.raises(errors.AlreadyValidated):
        services.start_validation(run.pk, n=10)


# ---------------------------------------------------------------------------------------- blindness


def test_a_case_names_no_model_no_judge_and_no_verdict(release: Release) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "model-x", "model-y")
    Judgment.objects.update(explanation="Because the judge said so.")
    services.start_validation(run.pk, n=8, seed=0)
    cases = Case.objects.filter(kind=Case.Kind.VALIDATION)
    assert cases.count() == 8
    for case in cases:
        stored = json.dumps([case.spec, case.title, case.lineage])
        for word in ("model-x", "model-y", "the-judge", "not_met", "judge said", "A1", "C2"):
            assert word not in stored
    physician = account("doc")
    assignment = claims.claim_next(physician)
    assert assignment is not None
    client = Client()
    client.force_login(physician)
    response = client.get(reverse("review:case", args=[assignment.pk]))
    assert not response.context["folded"], "the judge was told what was planted; nobody asks how natural it is"
    page = response.content.decode()
    item = ValidationItem.objects.get(case=assignment.case_id)
    assert item.response.text in page
    for word in ("model-x", "model-y", "the-judge", "Because the judge", f"run-{run.pk}", 'name="verdict"'):
        assert word not in page


def test_validation_cases_are_in_no_other_count(release: Release) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    before = Case.objects.filter(kind=Case.Kind.WORK).count()
    services.start_validation(run.pk, n=2, seed=0)
    assert Case.objects.filter(kind=Case.Kind.WORK).count() == before
    assert not Case.objects.filter(kind=Case.Kind.VALIDATION, ground__gt="").exists()


# ----------------------------------------------------------------------------------------- refusals


def test_a_launch_shows_what_a_way_of_judging_did_to_agreement(release: Release) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=12)
    answer_queue(create_physicians(2), lambda _who, rubric, _role: "not-met" if rubric % 3 else "met")
    assert run.judge is not None
    settings = RunSettings(
        release=release, endpoints=[row.endpoint for row in run.tested.all()], judge=run.judge, fresh=True
    )
    with_validation, without = costs.judging_costs(settings)
    report = queries.validation_report(run)
    assert report is not None
    [model] = report.models
    assert model.judge.kappa.value is not None
    assert (with_validation.validated, with_validation.kappas) == (run.pk, (model.judge.kappa.value,))
    assert (without.validated, without.kappas) == (None, ())


def test_impossible_and_repeated_validations_are_refused(release: Release) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    with pytest.raises(errors.UnknownRun):
        services.start_validation(run.pk + 1, n=5)
    for n in (0, services.MAX_ITEMS + 1):
        with pytest.raises(errors.SampleTooSmall):
            services.start_validation(run.pk, n=n)
    Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING)
    with pytest.raises(errors.RunNotFinished):
        services.start_validation(run.pk, n=5)
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED)
    services.start_validation(run.pk, n=5)
    with pytest.raises(errors.AlreadyValidated):
        services.start_validation(run.pk, n=5)
    assert ValidationItem.objects.count() == 5
    for rows in (Validation.objects.all(), ValidationItem.objects.all()):
        with pytest.raises(DatabaseError), transaction.atomic():
            rows.delete()
    assert RunEndpoint.objects.filter(run=run).count() == 1


@pytest.mark.parametrize("change", ["validated", "reopened"])
def test_what_happens_while_the_cases_are_composed_is_noticed(
    release: Release, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    questions = chains.chained_questions

    def questions_later(*arguments: Any) -> Any:
        monkeypatch.setattr(chains, "chained_questions", questions)
        if change == "validated":
            services.start_validation(run.pk, n=5)
        else:
            Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING)
        return questions(*arguments)

    monkeypatch.setattr(chains, "chained_questions", questions_later)
    with pytest.raises(errors.AlreadyValidated if change == "validated" else errors.RunNotFinished):
        services.start_validation(run.pk, n=6)
    assert ValidationItem.objects.count() == (5 if change == "validated" else 0)


# ---------------------------------------------------------------------------- page, API and command


@pytest.mark.both
def test_a_validation_works_on_page_api_and_command(release: Release, manage: Manage) -> None:
    run = finished_run(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    admin, researcher, physician = account("boss", UserRole.ADMIN), account("rui", UserRole.RESEARCHER), account("doc")
    url, api = reverse("evaluation:validation", args=[run.pk]), reverse("api:run-validation", args=[run.pk])
    client = Client()
    for person, status in ((physician, 403), (researcher, 403), (admin, 200)):
        client.force_login(person)
        assert client.get(url).status_code == status
        assert client.get(api).status_code == (403 if person is physician else 200)
    assert "Validate judge" in client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert 'value="100"' in client.get(url).content.decode(), "the default of the benchmark"
    for wrong in ("0", "0%", "a tenth"):
        assert client.post(url, {"n": wrong}).status_code == 422
    assert client.post(api, {"n": "a tenth"}, content_type="application/json").status_code == 400
    assert client.post(url, {"n": "6", "seed": "2"}).status_code == 302
    body = client.get(api).json()
    assert (body["validation"]["drawn"], body["validation"]["closed"], body["validation"]["seed"]) == (6, 0, 2)
    assert body["judges"] is None
    again = client.post(api, {"n": 6}, content_type="application/json")
    assert again.status_code == 409
    assert "already being validated" in manage.refusal("validate_judge", run.pk, "--n", 5)
    answer_queue([physician, account("two")], lambda _who, _rubric, _role: "met")
    page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "Judge against physicians" in page
    assert "6 of 6 responses are decided." in page
    assert json.loads(manage("report", run.pk, "--format", "json")[1])["validation"]["complete"] is True
    other = finished_run(release, lambda rubric, _m: rubric % 3 == 0, "m-2")
    assert manage.json("validate_judge", other.pk, "--n", 4, "--seed", 1)["drawn"] == 4
    third = finished_run(release, lambda rubric, _m: rubric % 3 == 0, "m-3")
    assert "a share such as 10%" in manage.refusal("validate_judge", third.pk, "--n", "a tenth")
    client.force_login(admin)
    share = client.post(reverse("api:run-validation", args=[third.pk]), {"n": "50%"}, content_type="application/json")
    assert share.json()["validation"]["drawn"] == 20, "half of the 40 responses"
