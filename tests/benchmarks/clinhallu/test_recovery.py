"""The known error rates of simulated vision models are recovered by the rates of each stage and the
gains that they imply."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.judges.content import rubric_pk
from evaluation.judges.queries import validation_report
from evaluation.judges.services import start_validation
from evaluation.models import Judgment, Response, Run, ValidationItem
from evaluation.reports import queries
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.models import Call
from mhb_site.benchmarks.clinhallu import protocol
from mhb_site.benchmarks.clinhallu.simulate_answers import ERROR_RATES
from review.assignments import claims
from review.assignments import services as assignments_services
from review.models import Assignment, User
from review.rules.case_spec import blocks_to_json
from review.rules.questions import Answer, Answers
from review.rules.wilson_interval import wilson
from review.turns.turn import turn_of
from tests.benchmarks.clinhallu.traced_release import traced_release, vision_models
from tests.engine import endpoint
from tests.review.factories import account

pytestmark = pytest.mark.django_db
Z = 3.3  # two-sided 99.9 %
COUNTS = {"vqa-rad": 40, "medframeqa": 30}
VARIANT_OF_RATE = {"h_visual": "rep-k", "h_knowledge": "rep-v", "h_reasoning": "rep-vk"}


@pytest.fixture(autouse=True)
def separate_data_dir(db: None, settings: Any, tmp_path: Path) -> None:
    settings.MHB_DATA_DIR = tmp_path


def run_of(counts: dict[str, int], *models: str) -> Run:
    """Run these models on a traced release; returns the finished run."""
    release = traced_release(counts)
    with vision_models() as url:
        tested = [endpoint(url, model) for model in models]
        run = services.launch_run(RunSettings(release=release, endpoints=tested, judge=endpoint(url, "sim-judge")))
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    return run


def true_rates(model: str) -> dict[str, float]:
    """The average result of a run for a model: a rate per stage, and the accuracy per variant.

    A missing stage counts as hallucinated. An answer is right if no earlier stage is wrong;
    replaced stages are right.
    """
    rates = ERROR_RATES[model]
    formed, v, k, r = 1 - rates.malformed, 1 - rates.visual, 1 - rates.knowledge, 1 - rates.reasoning
    return {
        "h_visual": 1 - formed * v,
        "h_knowledge": 1 - formed * k,
        "h_reasoning": 1 - formed * r,
        protocol.FREE: formed * v * k * r,
        protocol.REP_V: formed * k * r,
        protocol.REP_K: formed * formed * v * r,
        protocol.REP_VK: formed * r,
    }


def test_the_true_rates_are_recovered(tmp_path: Path) -> None:
    run = run_of(COUNTS, *ERROR_RATES)
    report = queries.report(run)
    rows = {(row.endpoint, row.dataset): row.rates for row in report.numbers.overall}
    for model in ERROR_RATES:
        expected = true_rates(model)
        for name, variant in VARIANT_OF_RATE.items():
            measured = [rows[model, f"{task}-{variant}"][name] for task in COUNTS]
            hits, n = sum(rate.numerator for rate in measured), sum(rate.denominator for rate in measured)
            assert n == sum(COUNTS.values())
            assert is_within_interval(hits, n, expected[name]), (model, name, hits / n, expected[name])
        for variant in ("free", "rep-v", "rep-k", "rep-vk"):
            measured = [rows[model, f"{task}-{variant}"]["accuracy"] for task in COUNTS]
            hits, n = sum(rate.numerator for rate in measured), sum(rate.denominator for rate in measured)
            assert n == sum(COUNTS.values()), "the paper's denominator is all questions"
            assert is_within_interval(hits, n, expected[variant]), (model, variant, hits / n, expected[variant])

    # The gains follow from the rates of the stages.
    for model in ERROR_RATES:
        expected = true_rates(model)
        for variant in ("rep-v", "rep-k", "rep-vk"):
            gains = [
                change
                for change in report.numbers.changes
                if (change.endpoint, change.rate) == (model, "accuracy") and change.first.endswith(f"-{variant}")
            ]
            assert len(gains) == len(COUNTS)
            for change in gains:
                assert change.gain is not None
                assert change.low is not None
                assert change.high is not None
                tolerance = 1.7 * (change.high - change.low) / 2  # widens a 95 % interval to 99.9 %
                assert abs(change.gain - (expected[variant] - expected["free"])) <= tolerance, (model, variant)
    assert {(row.dataset, row.label) for row in report.numbers.bottlenecks if row.rate == "accuracy"} == {
        (f"{task}-free", "Visual recognition replaced") for task in COUNTS
    }

    # The denominator of the released code leaves out invalid traces, and their number is reported.
    for model, simulated_model in ERROR_RATES.items():
        valid, total = (rows[model, "vqa-rad-free"][name] for name in ("accuracy_valid", "accuracy"))
        assert valid.denominator + valid.excluded == total.denominator
        assert bool(valid.excluded) == bool(simulated_model.malformed)
    assert Response.objects.filter(run=run, outcome="unasked").exists()

    # Models and judges got the image (equations 7 and 12); all calls use the published settings.
    for call in Call.objects.filter(job=run, hit_of=None):
        has_image = (
            "image" in json.dumps(call.sent["messages"][-1]["content"][1:])
            if isinstance(call.sent["messages"][-1]["content"], list)
            else False
        )
        assert has_image, call.prompt
        assert call.sent["temperature"] == (0.01 if "judge" in call.prompt else 0.7)
        assert (call.sent["top_p"], call.sent["max_tokens"]) == (0.9, 4096)

    # The bundle's own program recounts a run with chains.
    folder = tmp_path / "bundle"
    bundle.export_run(run, folder)
    assert verify_run.main([str(folder)]) == 0


@pytest.mark.both
def test_pages_downloads_and_validation_show_the_changes_and_rubrics(client: Client, adela: User) -> None:
    run = run_of({"vqa-rad": 12}, "sim-average", "sim-reckless")
    client.force_login(adela)
    changes = queries.report(run).numbers.changes
    change = next(row for row in changes if row.endpoint == "sim-average" and row.moves["fixed"])
    query = {
        "first": change.first,
        "second": change.second,
        "rate": change.rate,
        "model": change.endpoint,
        "move": "fixed",
    }
    run_args = [run.pk]
    expected = {
        reverse("evaluation:run", args=run_args): "Fixed and broken answers",
        reverse("evaluation:changes", args=run_args): "Visual recognition replaced",
        f"{reverse('evaluation:changes', args=run_args)}?model=sim-reckless&rate=accuracy_valid": "sim-reckless",
        f"{reverse('evaluation:changed', args=run_args)}?{urlencode(query)}": "Knowledge recall",
        f"{reverse('evaluation:changed', args=run_args)}?first=odd&move=odder&selected=x": "No answers in this group",
        reverse("evaluation:sample", args=[run.pk, "clin-001"]): "Rep-V",
        reverse("evaluation:judgments", args=run_args): "hallucinated",
        reverse("evaluation:report-markdown", args=run_args): "## Fixed and broken answers",
        reverse("evaluation:report-latex", args=run_args): "Fix and Break rates",
        f"{reverse('evaluation:report-csv', args=run_args)}?table=changes": "break_rate",
        reverse("evaluation:report-json", args=run_args): '"bottlenecks"',
    }
    for address, words in expected.items():
        response = client.get(address)
        assert response.status_code == 200, address
        assert words in response.content.decode(), address
    for name in ("svg", "csv"):
        address = reverse(f"evaluation:flow-{name}", args=[run.pk, "flow-0"])
        figure = client.get(address, {"rate": change.rate, "model": "sim-average"})
        assert figure.status_code == 200
        assert f"-flow-0.{name}" in figure.headers["Content-Disposition"]
        assert ("sim-average" if name == "svg" else "before,after,what,count") in figure.content.decode()
        assert client.get(address.replace("flow-0", "flow-99")).status_code == 404
    page = client.get(reverse("evaluation:changes", args=run_args)).content.decode()
    assert "figures/flow-0.svg?rate=accuracy&amp;model=" in page
    assert "More than chance" in page
    assert 'class="flow flow--fixed"' in page
    assert "style=" not in page.split("<main")[1]

    # Physicians see what the judge saw, but neither model nor verdict; agreement is reported per
    # rubric.
    Assignment.objects.update(hold=Assignment.Hold.DONE)  # of the sample's own case
    start_validation(run.pk, n=40)
    items = ValidationItem.objects.select_related("case", "response__endpoint", "response__sample")
    truth = {
        (row.response_id, row.rubric_id): "not-met" if row.verdict in ("wrong", "hallucinated") else "met"
        for row in Judgment.objects.filter(run=run)
    }
    response_of_case = {item.case_id: item.response_id for item in items}
    continued = next(item for item in items if item.response.variant == "rep-k")
    shown = json.dumps(blocks_to_json(continued.case.frozen.blocks))
    assert "Visual recognition" in shown
    assert "Knowledge recall" not in shown
    assert continued.response.sample.exported["content"]["images"][0] in shown
    assert "sim-" not in shown
    physicians = [account(f"doc{n}") for n in range(2)]
    while claimed := [row for row in map(claims.claim_next, physicians) if row is not None]:
        for assignment in claimed:
            assert assignment.token is not None
            assert assignment.physician is not None
            answers = {
                question.key: Answer(truth[response_of_case[assignment.case_id], rubric_pk(question.key)])
                for question in assignment.case.frozen.form.questions
            }
            assignments_services.submit(
                turn_of(assignment.physician, assignment.pk), assignment.token, Answers(answers)
            )
    validation = validation_report(run)
    assert validation is not None
    assert validation.complete
    assert [label.label for label in validation.labels] == ["answer", "knowledge", "reasoning", "visual"]
    assert {(label.physicians_agree, label.judge_agrees) for label in validation.labels} == {(1.0, 1.0)}
    assert "Agreement by rubric" in client.get(reverse("evaluation:run", args=run_args)).content.decode()


def is_within_interval(hits: int, n: int, rate: float) -> bool:
    low, high = wilson(hits, n, z=Z)
    return low <= rate <= high
