"""The judge against physicians: drawn by strata, blind, decided by two or three, and the rate corrected for its errors."""

import json
import re
from collections import Counter
from random import Random
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import errors
from evaluation.judges import content, queries, services, summary
from evaluation.judges.draw import Amount, allocation, draw, parse_amount
from evaluation.models import Judgment, Response, Run, RunEndpoint, Validation, ValidationItem
from evaluation.reports import documents
from evaluation.reports import queries as reports_queries
from evaluation.runs import services as runs_services
from evaluation.runs.settings import RunSettings
from generation.models import Release
from generation.models.work import Work
from review.access import visibility
from review.assignments import claims
from review.assignments import services as assignments
from review.cases.simulated_physicians import work_queue
from review.models import Assignment, Case, User
from review.rules.permissions import UserRole
from review.rules.questions import Answer, Answers
from review.rules.state_machine import Ground, Role
from tests.engine import Manage, bare_release, endpoint
from tests.review.factories import account

pytestmark = pytest.mark.django_db
Status = Work.Status
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def release(db: None) -> Release:
    release = bare_release(*[("dialogue", [["A1"], ["C2"], ["A3"]])] * 40)
    Assignment.objects.update(hold=Assignment.Hold.DONE)  # of the sample's own case
    return release


def finished(release: Release, judged: Any, *models: str) -> Run:
    """A finished run; `judged(rubric, model)` says which criteria the judge calls failed."""
    settings = RunSettings(release, [endpoint(NOWHERE, model) for model in models], endpoint(NOWHERE, "the-judge"))
    run = runs_services.launch_run(settings)
    judgments = []
    for response in Response.objects.filter(run=run).order_by("pk").select_related("endpoint", "sample"):
        Response.objects.filter(pk=response.pk).update(
            status=Status.DONE, outcome="answered", text=f"Take {response.pk} drops."
        )
        for rubric in response.sample.rubrics.order_by("pk"):
            failed = judged(rubric.pk, response.endpoint.name)
            verdict = "not_met" if failed else "met"
            judgments.append(Judgment(run=run, response=response, rubric=rubric, status=Status.DONE, verdict=verdict))
    Judgment.objects.bulk_create(judgments)
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED, finished_at=timezone.now())
    run.refresh_from_db()
    return run


def physicians(count: int) -> list[User]:
    return [account(f"doc{n}") for n in range(count)]


def answered(physician: User, held: Assignment, says: Any) -> None:
    questions = {each.key: Answer(says(content.rubric_pk(each.key))) for each in held.case.frozen.form.questions}
    assert held.token is not None
    assignments.submit(physician, held.pk, held.token, Answers(questions))


def worked(doctors: list[User], says: Any) -> None:
    """Everything in the queue, each by the next who comes; `says(physician, rubric, role)`."""
    idle = 0
    while idle < len(doctors):
        for physician in doctors:
            held = claims.claim_next(physician)
            idle = 0 if held else idle + 1
            if held is not None:
                role = held.role
                answered(physician, held, lambda rubric, who=physician, role=role: says(who, rubric, role))


# ------------------------------------------------------------------------------------------------------------ the draw


@pytest.mark.plain
def test_strata_are_drawn_alike_and_weighted_back() -> None:
    population = [(n, ("m", n % 50 == 0)) for n in range(500)]
    drawn = draw(population, Amount(30), seed=1)
    assert Counter(each.weight for each in drawn) == {1.0: 10, 490 / 20: 20}
    assert sum(each.weight for each in drawn) == pytest.approx(500)
    assert drawn == draw(population[::-1], Amount(30), seed=1)
    assert drawn != draw(population, Amount(30), seed=2)
    rare = [each.pk % 50 == 0 for each in drawn]
    assert rare != sorted(rare)  # the order tells nothing
    assert allocation({"a": 2, "b": 100}, 7) == {"a": 2, "b": 5}
    assert allocation({"a": 2, "b": 3}, 99) == {"a": 2, "b": 3}


@pytest.mark.plain
def test_a_share_is_drawn_of_each_stratum() -> None:
    population = [(n, ("m", n % 50 == 0)) for n in range(500)]
    drawn = draw(population, parse_amount(" 10 % "), seed=1)
    assert Counter(each.weight for each in drawn) == {10.0: 50}
    assert parse_amount("10%").per_stratum({"a": 300, "b": 4}) == {"a": 30, "b": 1}, "what is rare is seen as well"
    assert parse_amount("100%").per_stratum({"a": 300, "b": 4}) == {"a": 300, "b": 4}
    assert parse_amount("7") == Amount(7)
    for wrong in ("", "0%", "0.00%", "101%", "-5", "10 percent", "1e3", "10%%", "%"):
        with pytest.raises(ValueError, match="^" + re.escape(wrong)):
            parse_amount(wrong)


# --------------------------------------------------------------------------------------------------- what is recovered


@pytest.mark.both
def test_what_a_noisy_judge_hid_is_recovered(release: Release) -> None:
    """The truth is known, the judge errs often and not evenly; physicians who do not err find the true rate."""
    dice = Random(7)
    truth = {
        (rubric, model): dice.random() < rate
        for model, rate in (("bad", 0.6), ("good", 0.1))
        for rubric in release.samples.order_by("rubrics").values_list("rubrics", flat=True)
    }

    def judged(rubric: int, model: str) -> bool:
        failed = truth[rubric, model]
        return dice.random() < (0.7 if failed else 0.2)  # sensitivity .7, specificity .8

    run = finished(release, judged, "bad", "good")
    services.start_validation(run.pk, n=80, seed=3)
    models = dict(ValidationItem.objects.values_list("case", "response__endpoint__name"))
    doctors = physicians(2)
    while (held := [claims.claim_next(each) for each in doctors]) and any(held):
        for physician, mine in zip(doctors, held, strict=True):
            if mine is not None:
                name = models[mine.case_id]
                answered(physician, mine, lambda rubric, m=name: "not-met" if truth[rubric, m] else "met")
    report = queries.validation_report(run)
    assert report is not None
    assert (report.drawn, report.closed, report.third, report.complete) == (80, 80, 0, True)
    found = {each.endpoint: each for each in report.models}
    for model in ("bad", "good"):
        true = sum(truth[key] for key in truth if key[1] == model) / 120
        each = found[model]
        assert each.corrected.value == pytest.approx(true, abs=1e-9) if each.judge.n == 120 else True
        assert each.corrected.low is not None
        assert each.corrected.high is not None
        assert each.corrected.low <= true <= each.corrected.high
        assert each.corrected.value is not None
        assert each.raw.value is not None
        assert abs(each.corrected.value - true) < abs(each.raw.value - true)
        assert each.physicians.ac1.value == 1.0
        assert each.judge.sensitivity.value == pytest.approx(0.7, abs=0.15)
        assert each.judge.specificity.value == pytest.approx(0.8, abs=0.15)


def test_a_share_of_the_responses_recovers_it_as_well(release: Release) -> None:
    dice = Random(5)
    rubrics = list(release.samples.order_by("rubrics").values_list("rubrics", flat=True))
    truth = {rubric: dice.random() < 0.3 for rubric in rubrics}
    run = finished(release, lambda rubric, _m: dice.random() < (0.75 if truth[rubric] else 0.15), "m-1")
    services.start_validation(run.pk, n=24, seed=1)
    worked(physicians(2), lambda _who, rubric, _role: "not-met" if truth[rubric] else "met")
    [each] = (queries.validation_report(run) or pytest.fail("none")).models
    true = sum(truth.values()) / len(truth)
    assert each.judge.clusters == 24
    assert each.corrected.low is not None
    assert each.corrected.high is not None
    assert each.corrected.low <= true <= each.corrected.high


# ------------------------------------------------------------------------------------------------------ two, or three


def test_a_third_physician_decides_where_two_differ(release: Release) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=2, seed=0)
    first = ValidationItem.objects.order_by("pk")[0]
    disputed = {content.rubric_pk(question.key) for question in first.case.frozen.form.questions}

    def says(_who: User, rubric: int, role: str) -> str:
        if rubric in disputed:
            return {"primary": "met", "secondary": "unclear", "adjudicator-1": "met"}[role]
        return "not-met"

    worked(physicians(4), says)
    grounds = {item.case_id: item.case.ground for item in ValidationItem.objects.select_related("case")}
    assert grounds.pop(first.case_id) == Ground.ADJUDICATED
    assert set(grounds.values()) == {Ground.CONSENSUS}
    roles = Assignment.objects.filter(case=first.case).order_by("pk").values_list("role", flat=True)
    assert list(roles) == [Role.PRIMARY, Role.SECONDARY, Role.ADJUDICATOR_1]
    report = queries.validation_report(run)
    assert report is not None
    assert (report.third, report.closed) == (1, 2)


def test_the_third_sees_neither_answer_and_nobody_is_told_that_they_differ(release: Release) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=2, seed=0)
    one, two, three = physicians(3)
    case = claims.claim_next(one)
    assert case is not None
    answered(one, case, lambda _rubric: "met")
    Case.objects.exclude(pk=case.case_id).update(priority=-1)
    Assignment.objects.exclude(case=case.case_id).update(priority=-1)
    for physician in (two, three):
        held = claims.claim_next(physician)
        assert held is not None
        assert held.case_id == case.case_id
        assert not visibility.reviews_shown_to(physician, held.case, held).exists()
        answered(physician, held, lambda _rubric: "not-met")
    assert {visibility.submission_effect(review) for review in visibility.counted_reviews()} == {"submitted"}


def test_what_nobody_can_tell_corrects_nothing(release: Release) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=4, seed=0)
    worked(physicians(2), lambda _who, _rubric, _role: "unclear")
    [each] = (queries.validation_report(run) or pytest.fail("none")).models
    assert (each.judge.n, each.corrected.value, each.corrected.why) == (0, None, "nothing")


def test_each_data_set_is_corrected_by_itself(db: None) -> None:
    """The judge errs on reports alone."""
    release = bare_release(*([("dialogue", [["A1"]])] * 15 + [("report", [["A1"]])] * 15))
    Assignment.objects.update(hold=Assignment.Hold.DONE)
    reports = set(release.samples.filter(task="report").values_list("rubrics__pk", flat=True))
    run = finished(release, lambda rubric, _m: rubric in reports or rubric % 3 == 0, "m-1")
    services.start_validation(run.pk, n=30, seed=0)
    worked(physicians(2), lambda _who, rubric, _role: "not-met" if rubric % 3 == 0 else "met")
    told = summary.validation(run) or pytest.fail("none")
    [each] = told["models"]
    found = {one["dataset"]: one for one in each["datasets"]}
    assert found["report"]["raw"]["value"] == 1.0
    assert found["report"]["corrected"]["value"] == pytest.approx(len([pk for pk in reports if pk % 3 == 0]) / 15)
    assert found["dialogue"]["corrected"]["value"] == pytest.approx(found["dialogue"]["raw"]["value"])
    report = reports_queries.report(run)
    for text, between in ((documents.as_markdown(report), " | "), (documents.as_latex(report), " & ")):
        [row] = [line for line in text.splitlines() if between.join(["m-1", found["report"]["label"], "1.000"]) in line]
        assert f"{found['report']['corrected']['value']:.3f}" in row


def test_simulated_physicians_can_do_it(release: Release) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    services.start_validation(run.pk, n=6, seed=0)
    doctors = [account(f"sim{n}", simulated=True) for n in range(4)]
    assert work_queue(1, None, doctors).reviews >= 12
    found = summary.validation(run)
    assert found is not None
    assert (found["closed"], found["simulated_physicians"], found["complete"]) == (6, True, True)
    json.dumps(found)


@pytest.mark.both
def test_models_that_were_added_are_drawn_later(release: Release) -> None:
    """Each stratum belongs to one model, so weights and numbers of the others stay as they are."""
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    first = services.start_validation(run.pk, n=8, seed=3)
    worked(physicians(2), lambda _who, rubric, _role: "not-met" if rubric % 3 == 0 else "met")
    before = (summary.validation(run) or pytest.fail("none"))["models"]
    other = endpoint(NOWHERE, "m-2")
    RunEndpoint.objects.create(run=run, endpoint=other)
    for response in Response.objects.filter(run=run):
        judgments = list(response.judgments.all())
        response.pk, response.endpoint, response._state.adding = None, other, True
        response.save()
        for each in judgments:
            each.pk, each.response, each._state.adding = None, response, True
            each.save()
    assert (summary.validation(run) or pytest.fail("none"))["not_drawn"] == ["m-2"]
    again = services.start_validation(run.pk, n=10, seed=99)
    assert (again.pk, again.seed, again.items.count()) == (first.pk, 3, 18)
    items = ValidationItem.objects.filter(response__endpoint=other)
    assert items.count() == 10
    assert sum(item.weight for item in items) == pytest.approx(Response.objects.filter(endpoint=other).count())
    after = summary.validation(run) or pytest.fail("none")
    assert after["models"][: len(before)] == before
    assert after["not_drawn"] == []
    with pytest.raises(errors.AlreadyValidated):
        services.start_validation(run.pk, n=10)


# --------------------------------------------------------------------------------------------------------- blindness


def test_a_case_names_no_model_no_judge_and_no_verdict(release: Release) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "model-x", "model-y")
    Judgment.objects.update(explanation="Because the judge said so.")
    services.start_validation(run.pk, n=8, seed=0)
    cases = Case.objects.filter(kind=Case.Kind.VALIDATION)
    assert cases.count() == 8
    for case in cases:
        stored = json.dumps([case.spec, case.title, case.lineage])
        for word in ("model-x", "model-y", "the-judge", "not_met", "judge said", "A1", "C2"):
            assert word not in stored
    physician = account("doc")
    held = claims.claim_next(physician)
    assert held is not None
    client = Client()
    client.force_login(physician)
    page = client.get(reverse("review:case", args=[held.pk])).content.decode()
    item = ValidationItem.objects.get(case=held.case_id)
    assert item.response.text in page
    for word in ("model-x", "model-y", "the-judge", "Because the judge", f"run-{run.pk}", 'name="verdict"'):
        assert word not in page


def test_these_cases_are_no_work_in_any_other_count(release: Release) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    before = Case.objects.filter(kind=Case.Kind.WORK).count()
    services.start_validation(run.pk, n=2, seed=0)
    assert Case.objects.filter(kind=Case.Kind.WORK).count() == before
    assert not Case.objects.filter(kind=Case.Kind.VALIDATION, ground__gt="").exists()


# ----------------------------------------------------------------------------------------------------------- refusals


def test_what_is_refused(release: Release) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
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


# -------------------------------------------------------------------------------------------- page, API and command


@pytest.mark.both
def test_page_api_and_command(release: Release, manage: Manage) -> None:
    run = finished(release, lambda rubric, _m: rubric % 2 == 0, "m-1")
    admin, researcher, physician = account("boss", UserRole.ADMIN), account("rui", UserRole.RESEARCHER), account("doc")
    url, api = reverse("evaluation:validation", args=[run.pk]), reverse("api:run-validation", args=[run.pk])
    client = Client()
    for person, status in ((physician, 403), (researcher, 403), (admin, 200)):
        client.force_login(person)
        assert client.get(url).status_code == status
        assert client.get(api).status_code == (403 if person is physician else 200)
    assert "Validate judge" in client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert 'value="100"' in client.get(url).content.decode(), "what the benchmark draws"
    for wrong in ("0", "0%", "a tenth"):
        assert client.post(url, {"n": wrong}).status_code == 422
    assert client.post(api, {"n": "a tenth"}, content_type="application/json").status_code == 400
    assert client.post(url, {"n": "6", "seed": "2"}).status_code == 302
    told = client.get(api).json()
    assert (told["validation"]["drawn"], told["validation"]["closed"], told["validation"]["seed"]) == (6, 0, 2)
    assert told["judges"] is None
    again = client.post(api, {"n": 6}, content_type="application/json")
    assert again.status_code == 409
    assert "already being validated" in manage.refused("validate_judge", run.pk, "--n", 5)
    worked([physician, account("two")], lambda _who, _rubric, _role: "met")
    page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "Judge against physicians" in page
    assert "6 of 6 responses are decided." in page
    assert json.loads(manage("report", run.pk, "--format", "json")[1])["validation"]["complete"] is True
    other = finished(release, lambda rubric, _m: rubric % 3 == 0, "m-2")
    assert manage.json("validate_judge", other.pk, "--n", 4, "--seed", 1)["drawn"] == 4
    third = finished(release, lambda rubric, _m: rubric % 3 == 0, "m-3")
    assert "a share such as 10%" in manage.refused("validate_judge", third.pk, "--n", "a tenth")
    client.force_login(admin)
    share = client.post(reverse("api:run-validation", args=[third.pk]), {"n": "50%"}, content_type="application/json")
    assert share.json()["validation"]["drawn"] == 20, "half of the 40"
