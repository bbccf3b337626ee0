"""Several judges, repeated judgments and repeated answers.

Every vote is a row, and the last vote decides the judgment.
"""

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import errors, panel, registry
from evaluation.models import Judgment, Response, Run, Vote
from evaluation.runs import adding, services, work
from evaluation.runs import queries as runs_queries
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import votes
from evaluation.runs.settings import RunSettings
from generation.engine.sweeping import sweep
from generation.engine.task_queue import finish, take
from generation.errors import InvalidSettings
from generation.jobs import services as jobs_services
from generation.models import Call, Endpoint, Release
from generation.models.work import Work
from review.rules.permissions import OPERATOR
from tests.conftest import RunConcurrently
from tests.engine import bare_release, calls, endpoint
from tests.generation.llm.helpers import fake_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
Outcome = Response.Outcome
MET, NOT_MET = "met", "not_met"


@pytest.fixture
def bare(db: None) -> Release:
    """One sample with two criteria."""
    return bare_release(("dialogue", [["A1"], ["C2"]]))


def verdict_reply(met: bool, explanation: str = "So.") -> str:
    """A reply of a judge."""
    return json.dumps({"explanation": explanation, "criteria_met": met})


def settings(release: Release, url: str, judges: list[tuple[str, str]], **options: Any) -> RunSettings:
    """The settings of a run of one model with these judges, each given as (model, address)."""
    endpoints = [endpoint(address, model) for model, address in judges]
    return RunSettings(
        release=release, endpoints=[endpoint(url, "m-1")], judge=endpoints[0], further_judges=endpoints[1:], **options
    )


def panel_run(release: Release, url: str, judges: list[tuple[str, str]], **options: Any) -> Run:
    """Launch a run with these judges and work on it until nothing is left to do."""
    run = services.launch_run(settings(release, url, judges, **options))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    return run


def verdicts(run: Run) -> list[tuple[str, str]]:
    return list(Judgment.objects.filter(run=run).order_by("pk").values_list("verdict", "error"))


# ----------------------------------------------------------------------------------------- the rule


@pytest.mark.plain
@pytest.mark.parametrize(
    ("rule", "votes_by_judge", "verdict"),
    [
        ("majority", [[MET], [MET], [NOT_MET]], MET),
        ("majority", [[NOT_MET], [MET], [NOT_MET]], NOT_MET),
        ("majority", [[MET], [NOT_MET]], ""),
        ("majority", [[MET], [MET], [""]], MET),
        ("majority", [[MET], [""], [""]], ""),  # one of three is no majority, even if the other two failed
        ("majority", [[MET, MET, NOT_MET]], MET),
        ("majority", [[MET, NOT_MET]], ""),
        ("majority", [[MET, NOT_MET], [MET, MET], [MET, MET]], MET),
        ("majority", [["a"], ["b"], ["c"]], ""),
        ("unanimity", [[MET], [MET], [MET]], MET),
        ("unanimity", [[MET], [MET], [NOT_MET]], ""),
        ("unanimity", [[MET, MET], [MET, NOT_MET]], ""),
        ("unanimity", [[MET], [""]], ""),
        ("escalation", [[MET], [MET]], MET),
        ("escalation", [[MET], [MET], [NOT_MET]], MET),
        ("escalation", [[MET], [NOT_MET], [NOT_MET]], NOT_MET),
        ("escalation", [[MET], [""], [NOT_MET]], ""),
        ("escalation", [[MET], [""], [MET]], MET),
    ],
)
def test_each_rule_decides_as_defined(rule: str, votes_by_judge: list[list[str]], verdict: str) -> None:
    assert panel.decide(rule, votes_by_judge) == verdict


@pytest.mark.plain
def test_the_judge_of_another_family_comes_last() -> None:
    families = {"a": "gpt", "b": "claude", "c": "gpt", "d": "qwen"}
    assert panel.escalation_order(families, ["a", "b", "c"]) == ["a", "c", "b"]
    assert panel.escalation_order(families, ["a", "b", "d"]) == ["a", "b", "d"]
    assert panel.escalation_order(families, ["a", "c"]) is None
    assert panel.escalation_order({"a": "x", "b": "y", "c": "y"}, ["a", "b", "c"]) is None  # the first stays first


@pytest.mark.parametrize(
    ("model", "family"),
    [("openai/gpt-4o-mini", "gpt"), ("o3-mini", "gpt"), ("Qwen2.5-72B", "qwen"), ("7b-model", "7b-model")],
)
def test_the_family_of_a_model_follows_from_its_name(model: str, family: str) -> None:
    assert Endpoint(model=model).model_family == family
    assert Endpoint(model=model, family="Own ").model_family == "own"


# ------------------------------------------------------------------------------------------- panels


def test_the_majority_of_three_judges_decides(bare: Release) -> None:
    with (
        fake_endpoint("An answer.") as target,
        fake_endpoint(verdict_reply(True, "Yes.")) as one,
        fake_endpoint(verdict_reply(False, "No.")) as two,
    ):
        run = panel_run(bare, target.url, [("a", one.url), ("b", two.url), ("c", one.url)])
    assert run.status == Run.Status.FINISHED
    assert verdicts(run) == [(MET, ""), (MET, "")]
    assert set(Judgment.objects.values_list("explanation", flat=True)) == {"Yes."}
    assert Vote.objects.count() == 6
    assert len(calls(run)) == 1 + 6
    assert {call.subject for call in calls(run) if call.endpoint.name != "m-1"} == {
        f"vote:{vote.pk}" for vote in Vote.objects.all()
    }
    progress = RUNS.progress(RUNS.get_with_status(run.pk, OPERATOR))
    assert (progress.votes.done, progress.votes.total, progress.percent) == (6, 6, 100)
    assert [judge.name for judge in runs_queries.judges_of(run)] == ["a", "b", "c"]


def test_a_tie_stays_unjudged_and_is_not_asked_again(bare: Release) -> None:
    with (
        fake_endpoint("An answer.") as target,
        fake_endpoint(verdict_reply(True)) as one,
        fake_endpoint(verdict_reply(False)) as two,
    ):
        run = panel_run(bare, target.url, [("a", one.url), ("b", two.url)])
        assert verdicts(run) == [("", panel.NO_MAJORITY)] * 2
        assert set(Judgment.objects.values_list("status", "detail")) == {(Status.FAILED, "met 1, not_met 1")}
        before = run.calls
        assert jobs_services.retry_failed(run.pk) == 0
        work.work_on_run(run.pk)
        run.refresh_from_db()
    assert (run.calls, run.status) == (before, Run.Status.FINISHED)


def test_unanimity_needs_equal_votes(bare: Release) -> None:
    with (
        fake_endpoint("An answer.") as target,
        fake_endpoint(verdict_reply(True)) as one,
        fake_endpoint(verdict_reply(False), verdict_reply(True)) as two,
    ):
        run = panel_run(bare, target.url, [("a", one.url), ("b", two.url)], panel="unanimity")
    assert sorted(verdicts(run)) == [("", panel.NO_MAJORITY), (MET, "")]


def test_only_disputed_judgments_go_to_the_judge_of_another_family(bare: Release) -> None:
    with (
        fake_endpoint("An answer.") as target,
        fake_endpoint(verdict_reply(True)) as one,
        fake_endpoint(verdict_reply(True), verdict_reply(False)) as two,
        fake_endpoint(verdict_reply(False)) as three,
    ):
        judges = [("gpt-1", one.url), ("other-3", three.url), ("gpt-2", two.url)]
        run = panel_run(bare, target.url, judges, panel="escalation")
        assert len(three.bodies) == 1
    assert run.status == Run.Status.FINISHED
    assert sorted(verdicts(run)) == [(MET, ""), (NOT_MET, "")]
    assert sorted(Vote.objects.values_list("judge__name", flat=True)) == ["gpt-1"] * 2 + ["gpt-2"] * 2 + ["other-3"]


@pytest.mark.parametrize("judging", Run.Judging.values)
def test_a_judge_asked_three_times_costs_three_calls(bare: Release, judging: str) -> None:
    per_sample = judging == Run.Judging.PER_SAMPLE
    sample_replies = [
        json.dumps({"judgments": [{"key": key, "explanation": "So.", "criteria_met": met} for key in ("R1", "R2")]})
        for met in (True, False, True)
    ]
    rubric_replies = [verdict_reply(met) for met in (True, False, True) for _ in range(2)]
    with (
        fake_endpoint("An answer.") as target,
        fake_endpoint(*(sample_replies if per_sample else rubric_replies)) as one,
    ):
        endpoint(one.url, "a", concurrency=1)
        run = panel_run(bare, target.url, [("a", one.url)], judgments=3, judging=judging)
        assert len(one.bodies) == (3 if per_sample else 6)
        again = panel_run(bare, target.url, [("a", one.url)], judgments=3, judging=judging)
    assert (run.panel, run.judgments_each) == ("majority", 3)
    assert [verdict for verdict, _error in verdicts(run)] == [MET, MET]
    assert (again.calls, again.hits) == (0, 1 + (3 if per_sample else 6))  # paid replies are reused


def test_failed_votes_are_retried_and_then_decide(bare: Release) -> None:
    broken = "no JSON"
    with fake_endpoint("An answer.") as target, fake_endpoint(verdict_reply(True)) as one, fake_endpoint(broken) as two:
        run = panel_run(bare, target.url, [("a", one.url), ("b", two.url)])
        assert verdicts(run) == [("", panel.NO_MAJORITY)] * 2
        assert set(Judgment.objects.values_list("detail", flat=True)) == {"failed 1, met 1"}
    with fake_endpoint(verdict_reply(True)) as mended:
        Endpoint.objects.filter(name="b").update(url=mended.url)
        assert jobs_services.retry_failed(run.pk) == 2
        assert not Judgment.objects.exclude(status=Status.QUEUED).exists()
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    assert verdicts(run) == [(MET, "")] * 2


def test_a_judgment_without_votes_shows_the_error(bare: Release) -> None:
    with fake_endpoint("An answer.") as target, fake_endpoint("no JSON") as one:
        run = panel_run(bare, target.url, [("a", one.url)], judgments=2)
    assert verdicts(run) == [("", "BrokenReply")] * 2


def test_a_kill_between_two_votes_loses_and_repeats_none(bare: Release) -> None:
    with fake_endpoint("An answer.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = services.launch_run(settings(bare, target.url, [("a", one.url), ("b", one.url), ("c", one.url)]))
        run_panel = votes.panel_of(run)
        [row] = take(Response.objects.filter(run=run), 1)
        response = {"text": "An answer.", "outcome": Outcome.ANSWERED}
        work._store_responses(registry.protocol("mhb"), [(row, Status.DONE, response)], panel=run_panel)
        first, second, *_rest = take(Vote.objects.filter(run=run).order_by("pk"), 6)
        fields = {"verdict": MET, "explanation": "So."}
        assert votes.store_votes(run_panel, [(first, Status.DONE, fields)]) == [True]
        assert set(Judgment.objects.values_list("status", flat=True)) == {Status.QUEUED}
        assert not RUNS.with_work(Run.objects.filter(pk=run.pk)).exists()  # a dead worker holds all of it
        Vote.objects.filter(status=Status.RUNNING).update(lease_until=timezone.now() - timedelta(minutes=1))
        assert sweep(RUNS)
        work.work_on_run(run.pk)
        assert votes.store_votes(run_panel, [(second, Status.DONE, {**fields, "verdict": NOT_MET})]) == [
            False
        ]  # too late
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    assert verdicts(run) == [(MET, "")] * 2
    assert Call.objects.filter(subject=f"vote:{first.pk}").count() == 0  # its vote was stored before the kill
    assert Vote.objects.filter(status=Status.DONE).count() == 6


@pytest.mark.django_db(transaction=True)
def test_votes_that_end_at_the_same_time_decide_once(bare: Release, run_concurrently: RunConcurrently) -> None:
    with fake_endpoint("An answer.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = services.launch_run(settings(bare, target.url, [("a", one.url), ("b", one.url)]))
    run_panel = votes.panel_of(run)
    [row] = take(Response.objects.filter(run=run), 1)
    with transaction.atomic():
        work._store_responses(
            registry.protocol("mhb"),
            [(row, Status.DONE, {"text": "An answer.", "outcome": Outcome.ANSWERED})],
            panel=run_panel,
        )
    rows = take(Vote.objects.filter(run=run).order_by("pk"), 4)

    def end(vote: Vote) -> list[bool]:
        with transaction.atomic():
            return votes.store_votes(run_panel, [(vote, Status.DONE, {"verdict": MET, "explanation": ""})])

    assert run_concurrently([partial(end, vote) for vote in rows]) == [[True]] * 4
    assert verdicts(run) == [(MET, "")] * 2


def test_the_database_refuses_a_second_vote(bare: Release) -> None:
    with fake_endpoint("An answer.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = panel_run(bare, target.url, [("a", one.url), ("b", one.url)])
    vote = Vote.objects.filter(run=run)[0]
    for wrong in (
        lambda: Vote.objects.create(run=run, judgment=vote.judgment, judge=vote.judge, repeat=vote.repeat),
        lambda: Vote.objects.filter(pk=vote.pk).update(verdict=""),
        lambda: Vote.objects.filter(pk=vote.pk).update(status=Status.RUNNING),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            wrong()
    assert not finish(vote, Status.FAILED)


# ------------------------------------------------------------------------------------------ repeats


def test_three_answers_cost_three_calls(bare: Release) -> None:
    with fake_endpoint("One.", "Two.", "Three.") as target, fake_endpoint(verdict_reply(True)) as one:
        endpoint(target.url, "m-1", concurrency=1)
        run = panel_run(bare, target.url, [("a", one.url)], answers=3)
        assert len(target.bodies) == 3
        again = panel_run(bare, target.url, [("a", one.url)], answers=3)
    responses = Response.objects.filter(run=run).order_by("repeat")
    assert [(row.repeat, row.status) for row in responses] == [(n, Status.DONE) for n in range(3)]
    assert {row.text for row in responses} == {"One.", "Two.", "Three."}
    assert {row.text for row in Response.objects.filter(run=again)} == {"One.", "Two.", "Three."}
    assert (run.calls, run.panel, run.rubrics_total) == (3 + 3 * 2, "", 6)
    assert again.calls == 0
    assert not Vote.objects.exists()


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_where_repeats_are_measured_identical_answers_are_judged_separately(bare: Release, temperature: float) -> None:
    with fake_endpoint("The same.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = panel_run(bare, target.url, [("a", one.url)], answers=2, judgments=2, judge_temperature=temperature)
        assert len(one.bodies) == 2 * 2 * 2
    assert (run.calls, run.hits) == (2 + 8, 0)


def test_where_the_floor_is_measured_an_answer_is_judged_anew_at_temperature_0(bare: Release) -> None:
    """The floor tells how much verdicts turn by asking again, also with a warm or a cold cache."""
    with fake_endpoint("The same.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = panel_run(bare, target.url, [("a", one.url)], answers=2, judge_temperature=0)
        before = len(one.bodies)
        adding.add_checks(adding.Checks(run=run, again=["verdicts"]))
        work.work_on_run(run.pk)
        assert (before, len(one.bodies)) == (2, 2 + 2), "the first answer's criteria, and none from the ledger"


@pytest.mark.parametrize(("temperature", "judged"), [(0.0, 2), (0.5, 6)])
def test_at_temperature_0_a_judge_is_asked_once_for_equal_answers(
    bare: Release, admin: Client, temperature: float, judged: int
) -> None:
    with fake_endpoint("The same.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = panel_run(bare, target.url, [("a", one.url)], answers=3, judge_temperature=temperature)
        assert len(one.bodies) == judged
    assert (run.calls, run.hits) == (3 + judged, 6 - judged)
    assert verdicts(run) == [(MET, "")] * 6
    page = admin.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert ("plus 4 cached replies" in page) == (run.hits == 4)


def test_the_budget_holds_for_votes(bare: Release) -> None:
    with fake_endpoint("An answer.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = panel_run(bare, target.url, [("a", one.url)], judgments=3, budget_calls=4)
    assert (run.calls, run.status, run.paused_because) == (4, Run.Status.PAUSED, "BudgetSpent")


def test_the_estimate_counts_every_vote(bare: Release) -> None:
    judges = [("a", "http://127.0.0.1:9/v1"), ("b", "http://127.0.0.1:9/v1")]
    estimate = estimate_run(settings(bare, "http://127.0.0.1:9/v1", judges, answers=3, judgments=2))
    assert {(line.role, line.endpoint, line.requests) for line in estimate.lines} == {
        ("target", "m-1", 3), ("judge", "a", 2 * 3 * 2), ("judge", "b", 2 * 3 * 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("judges", "options", "error"),
    [
        (["a", "b"], {"panel": "escalation"}, errors.EscalationNeedsThree),
        (["a-1", "a-2", "a-3"], {"panel": "escalation"}, errors.EscalationNeedsThree),
        ([*"abcdefghij"], {}, errors.TooManyRepeats),
        (["a", "b"], {"transport": "batch"}, errors.NoPanelInBatches),
        (["a"], {"transport": "batch", "judgments": 2}, errors.NoPanelInBatches),
    ],
)
def test_unsuitable_panels_are_refused(
    bare: Release, judges: list[str], options: dict[str, Any], error: type[Exception]
) -> None:
    refused_settings = settings(
        bare, "http://127.0.0.1:9/v1", [(name, "http://127.0.0.1:9/v1") for name in judges], **options
    )
    for ask in (estimate_run, services.launch_run):
        with pytest.raises(error):
            ask(refused_settings)
    assert not Run.objects.exists()


@pytest.mark.parametrize(("name", "number"), [("answers", 21), ("judgments", 0)])
def test_numbers_of_repeats_out_of_range_are_refused(bare: Release, name: str, number: int) -> None:
    with pytest.raises(InvalidSettings, match=name):
        settings(bare, "http://127.0.0.1:9/v1", [("a", "http://127.0.0.1:9/v1")], **{name: number})
