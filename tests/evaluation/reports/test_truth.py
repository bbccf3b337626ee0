"""A world whose truth is known: every document, page and validation of a run says it.

The truth is counted here over the rows, by loops that share nothing with the code under test.
"""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from statsmodels.stats.proportion import confint_proportions_2indep

from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.judges import queries as judges_queries
from evaluation.judges import services as judges_services
from evaluation.judges import summary
from evaluation.models import Judgment, Response, Run, ValidationItem, Vote
from evaluation.releases.leaderboard import leaderboard
from evaluation.reports import documents, formats
from evaluation.reports import queries as reports_queries
from evaluation.runs import services
from evaluation.runs.rows import votes
from evaluation.runs.settings import RunSettings
from evaluation.runs.verdicts import RunVerdicts
from generation.models import Endpoint, Release, ReleasedRubric
from generation.models.work import Work
from review.models import Assignment, User
from tests.engine import bare_release, endpoint
from tests.evaluation.judges.test_validation import answer_queue, create_physicians, finished_run
from tests.evaluation.reports.test_counting import with_controls
from tests.evaluation.test_metrics import run_with_verdicts

pytestmark = pytest.mark.django_db
MODELS = ("good", "bad")


def world(*, families: bool = False) -> Run:
    """24 traps and 24 controls of the same records.

    By rules of the run, an unreadable reply of the judge and a refusal count as not met. Both
    happen on traps and on controls.
    """
    release = with_controls(24)
    Assignment.objects.update(hold=Assignment.Hold.DONE)
    run = finished_run(release, lambda pk, name: pk % (5 if name == "good" else 2) == 0, *MODELS)
    plan = {**run.plan, "outcomes": {**run.plan["outcomes"], "unparsed": "not_met", "refused": "not_met"}}
    Run.objects.filter(pk=run.pk).update(plan=plan)
    for n, row in enumerate(Judgment.objects.order_by("pk")):
        if n % 11 == 3:
            Judgment.objects.filter(pk=row.pk).update(verdict="", status=Work.Status.FAILED, error="BrokenReply")
    for response in run.responses.order_by("pk")[5::13]:
        run.responses.filter(pk=response.pk).update(outcome="refused", text="")
        response.judgments.update(verdict="", status=Work.Status.FAILED, error="NotJudged")
    if families:
        Endpoint.objects.update(family="one")
    run.refresh_from_db()
    return run


def truth(run: Run, name: str, arm: str = "trap") -> tuple[int, int]:
    """(not met, judged) of a model, counted by hand."""
    counted = []
    for row in run.judgments.select_related("response__endpoint", "response__sample__version__sample"):
        if row.response.endpoint.name != name or row.response.sample.version.sample.arm != arm:
            continue
        by_rule = row.response.outcome == "refused" or row.error == "BrokenReply"
        counted.append("not_met" if by_rule else row.verdict)
    return counted.count("not_met"), counted.count("not_met") + counted.count("met")


def test_every_document_says_the_truth(client: Client, adela: User, tmp_path: Path) -> None:
    run = world()
    report = reports_queries.report(run)
    assert not report.numbers.held_out
    data = json.loads(formats.as_json(report))
    lines = list(csv.DictReader(io.StringIO(formats.as_csv(report, "overall"))))
    client.force_login(adela)
    page = " ".join(client.get(reverse("evaluation:run", args=[run.pk])).content.decode().split())
    scores = {entry.endpoint: entry.scores[-1] for entry in leaderboard(run.release).entries}
    for name in MODELS:
        hits, judged = truth(run, name)
        [row] = [row for row in data["overall"] if row["endpoint"] == name]
        assert (row["numerator"], row["denominator"], row["rate"]) == (hits, judged, pytest.approx(hits / judged))
        [line] = [line for line in lines if (line["endpoint"], line["rate"]) == (name, "hallucination_rate")]
        assert (int(line["numerator"]), int(line["denominator"])) == (hits, judged)
        assert (scores[name].numerator, scores[name].denominator) == (hits, judged)
        assert f"| {hits} / {judged} |" in formats.as_markdown(report)
        assert f"{100 * hits / judged:.1f}\\%" in documents.as_latex(report)
        assert f"{100 * hits / judged:.1f}%" in page
        assert report.numbers.judged[name] == (hits, judged)
    bundle.export_run(run, tmp_path / "bundle")
    assert verify_run.check(tmp_path / "bundle")["faults"] == []


def test_the_judges_figures_are_of_the_same_verdicts(db: None) -> None:
    """A judge who never errs: raw and corrected rates are the report's."""
    release = with_controls(24)
    Assignment.objects.update(hold=Assignment.Hold.DONE)
    run = finished_run(release, lambda pk, name: pk % (5 if name == "good" else 2) == 0, "bad")
    plan = {**run.plan, "outcomes": {**run.plan["outcomes"], "refused": "not_met"}}
    Run.objects.filter(pk=run.pk).update(plan=plan)
    refused = run.responses.order_by("pk")[4]
    run.responses.filter(pk=refused.pk).update(outcome="refused", text="")
    refused.judgments.update(verdict="", status=Work.Status.FAILED, error="NotJudged")
    run.refresh_from_db()
    judges_services.start_validation(run.pk, n=24, seed=1)
    drawn = ValidationItem.objects.filter(validation__run=run)
    assert {item.response.sample.version.sample.arm for item in drawn} == {"trap"}
    assert refused.pk not in {item.response_id for item in drawn}, "nobody can judge a refusal"
    answer_queue(create_physicians(2), lambda _who, rubric, _role: "met" if rubric % 2 else "not-met")
    validation = judges_queries.validation_report(run)
    assert validation is not None
    assert validation.complete
    [model] = validation.models
    hits, judged = truth(run, "bad")
    assert (validation.rate.name, model.raw.n) == ("hallucination_rate", judged)
    assert model.raw.value == pytest.approx(hits / judged)
    assert model.corrected.value == pytest.approx(hits / judged)
    assert (model.judge.sensitivity.value, model.judge.specificity.value) == (1.0, 1.0)


def test_families_and_variances_leave_controls_out(db: None) -> None:
    run = world(families=True)
    hits, judged = (sum(counts) for counts in zip(*(truth(run, name) for name in MODELS), strict=True))
    [family] = summary.preference(RunVerdicts(run))["rates"]
    assert (family["failed"], family["judged"]) == (hits, judged)
    Run.objects.filter(pk=run.pk).update(answers_each=2)
    run.refresh_from_db()
    assert {model["samples"] for model in summary.repeats(RunVerdicts(run))["models"]} == {24}


def test_no_pooled_rate_of_one_data_set(db: None) -> None:
    release: Release = bare_release(*[("dialogue", [["A1"]])] * 8, *[("report", [["C2"]])] * 19)
    run = run_with_verdicts(
        release,
        one=lambda _at, rubric: "not_met" if rubric.sample.task == "dialogue" else "",
        two=lambda at, _rubric: "met" if at % 2 else "not_met",
    )
    Run.objects.filter(pk=run.pk).update(finished_at=timezone.now(), judge_temperature=0.5)
    report = reports_queries.report(run)
    rates = {(row.endpoint, row.dataset): row.measured for row in report.numbers.overall}
    assert rates["one", "dialogue"].value == 1.0
    combined = rates["one", "combined"]
    assert (combined.value, combined.interval, combined.numerator, combined.denominator, combined.excluded) == (
        None, None, 8, 8, 19,
    )  # fmt: skip
    assert rates["two", "combined"].value == pytest.approx(14 / 27)
    for text in (formats.as_markdown(report), documents.as_latex(report)):
        assert "a data set has no verdicts" in text
    rows = json.loads(formats.as_json(report))["overall"]
    [row] = [row for row in rows if (row["endpoint"], row["dataset"]) == ("one", "combined")]
    assert (row["rate"], row["incomplete"]) == (None, True)
    assert {entry.endpoint: entry.rank for entry in leaderboard(release).entries}["one"] is None


def test_documents_give_the_bounds_of_the_json(db: None) -> None:
    release = bare_release(*[("dialogue", [["A1"]])] * 20)
    run = run_with_verdicts(release, one=lambda at, _rubric: ("met", "not_met", "met", "")[at % 4])
    report = reports_queries.report(run)
    [row] = json.loads(formats.as_json(report))["overall"]
    assert (row["best"], row["worst"]) == (pytest.approx(5 / 20), pytest.approx(10 / 20))
    assert "| 0.250 | 0.500 |" in formats.as_markdown(report)
    latex = documents.as_latex(report)
    assert r"one & MHB-Dialogue & 5 & 25.0\% & 50.0\% \\" in latex
    assert "with samples as clusters" in latex
    shared = reports_queries.report(run_with_verdicts(with_controls(12), one=lambda at, _rubric: "met"))
    assert "with source records as clusters" in documents.as_latex(shared)


@pytest.mark.parametrize(("rule", "rate"), [("excluded", (12, 24)), ("not_met", (24, 36)), ("met", (12, 36))])
def test_a_rule_decides_what_two_judges_leave_undecided(tmp_path: Path, rule: str, rate: tuple[int, int]) -> None:
    """Of 36 criteria both judges fail 12, neither fails 12, and one alone 12."""
    release = bare_release(*[("dialogue", [["A1"], ["C2"], ["C2"]])] * 12)
    url = "http://127.0.0.1:9/v1"
    judges = [endpoint(url, name) for name in ("a", "b")]
    outcomes = [f"no_majority={rule}", "judge_failed=met"]
    settings = RunSettings(
        release=release, endpoints=[endpoint(url, "m-1")], judge=judges[0], further_judges=judges[1:], outcomes=outcomes
    )
    run = services.launch_run(settings)
    Response.objects.filter(run=run).update(status=Work.Status.DONE, outcome="answered", text="Drops.")
    rows = [
        (Judgment.objects.create(run=run, response=response, rubric=rubric), at)
        for response in run.responses.all()
        for at, rubric in enumerate(response.sample.rubrics.order_by("pk"))
    ]
    panel = votes.panel_of(run)
    Vote.objects.bulk_create(
        Vote(run=run, judgment=row, judge=judge, status=Work.Status.DONE, verdict="met" if n >= at else "not_met")
        for row, at in rows
        for n, judge in enumerate(judges)
    )
    votes.decide_judgments(panel, [row.pk for row, _at in rows])
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED, finished_at=timezone.now())
    run.refresh_from_db()
    report = reports_queries.report(run)
    [row] = report.numbers.overall
    assert (row.measured.numerator, row.measured.denominator) == rate
    assert [(e.kind, e.criteria, e.counted, e.rule) for e in report.numbers.endings if e.kind == "no_majority"] == [
        ("no_majority", 12, rate[1] - 24, rule)
    ]
    assert reports_queries.judgments(run, verdict="not_met").count() == rate[0]
    assert "12 criteria without a majority of the judges" in documents.as_latex(report)
    assert "12 criteria (0.333 of all) had no majority" in formats.as_markdown(report)
    bundle.export_run(run, tmp_path / "bundle")
    assert verify_run.check(tmp_path / "bundle")["faults"] == []


def test_a_model_that_has_seen_what_is_public_is_found(client: Client, adela: User, tmp_path: Path) -> None:
    """Of 40 public and 20 held-out samples, `seen` fails 10 and 70 %, `fresh` 40 % of either."""
    release = with_controls(60, held_out=20)

    def fails(public: float, held_out: float) -> Callable[[int, ReleasedRubric], str]:
        return lambda _at, rubric: (
            "not_met"
            if (rubric.sample.position // 2) % 10 < 10 * (held_out if rubric.sample.split == "held-out" else public)
            else "met"
        )

    run = run_with_verdicts(release, seen=fails(0.1, 0.7), fresh=fails(0.4, 0.4))
    Run.objects.filter(pk=run.pk).update(finished_at=timezone.now())
    run.refresh_from_db()
    report = reports_queries.report(run)
    gaps = {gap.endpoint: gap for gap in report.numbers.held_out if gap.rate == "hallucination_rate"}
    seen, fresh = gaps["seen"], gaps["fresh"]
    assert (seen.public, seen.held_out, seen.difference) == pytest.approx((0.1, 0.7, -0.6))
    assert (fresh.public, fresh.held_out, fresh.difference) == pytest.approx((0.4, 0.4, 0.0))
    assert (seen.public_clusters, seen.held_out_clusters) == (40, 20)
    [low, high] = confint_proportions_2indep(4, 40, 14, 20, method="newcomb", compare="diff")
    assert seen.low is not None
    assert seen.high is not None
    # Both criteria of a sample are alike, so that the effective number is about that of samples.
    assert (seen.low, seen.high) == pytest.approx((low, high), abs=0.03)
    assert fresh.low is not None
    assert fresh.high is not None
    assert fresh.low < 0 < fresh.high
    client.force_login(adela)
    page = " ".join(client.get(reverse("evaluation:run", args=[run.pk])).content.decode().split())
    assert "public and held-out samples</h2>" in page
    for text in (page, formats.as_markdown(report), documents.as_latex(report)):
        assert "-60.0 pp" in text
    assert json.loads(formats.as_json(report))["held_out"][0]["endpoint"] == "seen"
    assert len(list(csv.DictReader(io.StringIO(formats.as_csv(report, "held-out"))))) == len(report.numbers.held_out)
    bundle.export_run(run, tmp_path / "bundle")
    assert verify_run.check(tmp_path / "bundle")["faults"] == []
