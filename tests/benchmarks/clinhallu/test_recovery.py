"""A model that sees, with known errors in each stage, is recovered by the rates of the stages and the gains they imply."""

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
from mhb_site.benchmarks.clinhallu.simulate_answers import ERROR_RATES, true_rates
from review.assignments import claims
from review.assignments import services as assignments
from review.models import Assignment, User
from review.rules.case_spec import blocks_to_json
from review.rules.questions import Answer, Answers
from review.rules.wilson_interval import wilson
from tests.benchmarks.clinhallu.traced_release import seers, traced_release
from tests.engine import endpoint
from tests.review.factories import account

pytestmark = pytest.mark.django_db
Z = 3.3  # two-sided 99.9 %
COUNTS = {"vqa-rad": 40, "medframeqa": 30}
WHERE = {"h_visual": "rep-k", "h_knowledge": "rep-v", "h_reasoning": "rep-vk"}


@pytest.fixture(autouse=True)
def kept_apart(db: None, settings: Any, tmp_path: Path) -> None:
    settings.MHB_DATA_DIR = tmp_path


def worked(counts: dict[str, int], *models: str) -> Run:
    """A finished run of these models."""
    release = traced_release(counts)
    with seers() as url:
        tested = [endpoint(url, model) for model in models]
        run = services.launch_run(RunSettings(release, tested, endpoint(url, "sim-judge")))
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    return run


def test_the_true_rates_are_recovered(tmp_path: Path) -> None:
    run = worked(COUNTS, *ERROR_RATES)
    report = queries.report(run)
    rows = {(row.endpoint, row.dataset): row.rates for row in report.overall}
    for model in ERROR_RATES:
        expected = true_rates(model)
        for name, variant in WHERE.items():
            measured = [rows[model, f"{task}-{variant}"][name] for task in COUNTS]
            hits, n = sum(each.numerator for each in measured), sum(each.denominator for each in measured)
            assert n == sum(COUNTS.values())
            assert inside(hits, n, expected[name]), (model, name, hits / n, expected[name])
        for variant in ("free", "rep-v", "rep-k", "rep-vk"):
            measured = [rows[model, f"{task}-{variant}"]["accuracy"] for task in COUNTS]
            hits, n = sum(each.numerator for each in measured), sum(each.denominator for each in measured)
            assert n == sum(COUNTS.values()), "the paper's denominator is all questions"
            assert inside(hits, n, expected[variant]), (model, variant, hits / n, expected[variant])

    # The gains are what the rates of the stages imply.
    for model in ERROR_RATES:
        expected = true_rates(model)
        for variant in ("rep-v", "rep-k", "rep-vk"):
            gains = [
                each
                for each in report.numbers.changes
                if (each.endpoint, each.rate) == (model, "accuracy") and each.first.endswith(f"-{variant}")
            ]
            assert len(gains) == len(COUNTS)
            for each in gains:
                assert each.gain is not None
                assert each.low is not None
                assert each.high is not None
                reach = 1.7 * (each.high - each.low) / 2  # 99.9 % of an interval of 95 %
                assert abs(each.gain - (expected[variant] - expected["free"])) <= reach, (model, variant)
    assert {(each.dataset, each.label) for each in report.numbers.bottlenecks if each.rate == "accuracy"} == {
        (f"{task}-free", "Visual recognition replaced") for task in COUNTS
    }

    # The released code's denominator leaves out what is no valid trace, and says how many.
    for model, seer in ERROR_RATES.items():
        valid, every = (rows[model, "vqa-rad-free"][name] for name in ("accuracy_valid", "accuracy"))
        assert valid.denominator + valid.excluded == every.denominator
        assert bool(valid.excluded) == bool(seer.malformed)
    assert Response.objects.filter(run=run, outcome="unasked").exists()

    # The judge of what is seen got the image, the others did not; everybody is asked at the published settings.
    for call in Call.objects.filter(job=run, hit_of=None):
        sees = (
            "image" in json.dumps(call.sent["messages"][-1]["content"][1:])
            if isinstance(call.sent["messages"][-1]["content"], list)
            else False
        )
        blind = any(name in call.prompt for name in ("judge_answer", "judge_knowledge", "judge_reasoning"))
        assert sees is not blind, call.prompt
        assert call.sent["temperature"] == (0.01 if "judge" in call.prompt else 0.7)
        assert (call.sent["top_p"], call.sent["max_tokens"]) == (0.9, 4096)

    # The bundle of a chain is counted again by its own program.
    folder = tmp_path / "bundle"
    bundle.export_run(run, folder)
    assert verify_run.main([str(folder)]) == 0


@pytest.mark.both
def test_pages_files_and_the_check_by_physicians(client: Client, adela: User) -> None:
    run = worked({"vqa-rad": 12}, "sim-average", "sim-reckless")
    client.force_login(adela)
    numbers = queries.report(run).numbers.changes
    change = next(each for each in numbers if each.endpoint == "sim-average" and each.moves["fixed"])
    asked = {
        "first": change.first,
        "second": change.second,
        "rate": change.rate,
        "model": change.endpoint,
        "move": "fixed",
    }
    at = [run.pk]
    expected = {
        reverse("evaluation:run", args=at): "Fixed and broken answers",
        reverse("evaluation:changes", args=at): "Visual recognition replaced",
        f"{reverse('evaluation:changes', args=at)}?model=sim-reckless&rate=accuracy_valid": "sim-reckless",
        f"{reverse('evaluation:changed', args=at)}?{urlencode(asked)}": "Knowledge recall",
        f"{reverse('evaluation:changed', args=at)}?first=odd&move=odder&selected=x": "No answers went this way",
        reverse("evaluation:sample", args=[run.pk, "clin-001"]): "Rep-V",
        reverse("evaluation:judgments", args=at): "hallucinated",
        reverse("evaluation:report-markdown", args=at): "## Fixed and broken answers",
        reverse("evaluation:report-latex", args=at): "Fix and Break rates",
        f"{reverse('evaluation:report-csv', args=at)}?table=changes": "break_rate",
        reverse("evaluation:report-json", args=at): '"bottlenecks"',
    }
    for address, words in expected.items():
        answer = client.get(address)
        assert answer.status_code == 200, address
        assert words in answer.content.decode(), address
    for name in ("svg", "csv"):
        address = reverse(f"evaluation:flow-{name}", args=[run.pk, "flow-0"])
        drawn = client.get(address, {"rate": change.rate, "model": "sim-average"})
        assert drawn.status_code == 200
        assert f"-flow-0.{name}" in drawn.headers["Content-Disposition"]
        assert ("sim-average" if name == "svg" else "before,after,what,count") in drawn.content.decode()
        assert client.get(address.replace("flow-0", "flow-99")).status_code == 404
    page = client.get(reverse("evaluation:changes", args=at)).content.decode()
    assert "figures/flow-0.svg?rate=accuracy&amp;model=" in page
    assert "More than chance" in page
    assert 'class="flow flow--fixed"' in page
    assert "style=" not in page.split("<main")[1]

    # Physicians see the whole trace and neither model nor verdict; the agreement is told for each rubric.
    Assignment.objects.update(hold=Assignment.Hold.DONE)  # of the sample's own case
    start_validation(run.pk, n=40)
    cases = ValidationItem.objects.select_related("case", "response__endpoint", "response__sample")
    truth = {
        (row.response_id, row.rubric_id): "not-met" if row.verdict in ("wrong", "hallucinated") else "met"
        for row in Judgment.objects.filter(run=run)
    }
    of_case = {item.case_id: item.response_id for item in cases}
    continued = next(item for item in cases if item.response.variant == "rep-k")
    shown = json.dumps(blocks_to_json(continued.case.frozen.blocks))
    assert "Knowledge Recall" in shown
    assert continued.response.sample.exported["content"]["images"][0] in shown
    assert "sim-" not in shown
    doctors = [account(f"doc{n}") for n in range(2)]
    while held := [each for each in map(claims.claim_next, doctors) if each is not None]:
        for mine in held:
            assert mine.token is not None
            assert mine.physician is not None
            said = {
                each.key: Answer(truth[of_case[mine.case_id], rubric_pk(each.key)])
                for each in mine.case.frozen.form.questions
            }
            assignments.submit(mine.physician, mine.pk, mine.token, Answers(said))
    found = validation_report(run)
    assert found is not None
    assert found.complete
    assert [each.label for each in found.labels] == ["answer", "knowledge", "reasoning", "visual"]
    assert {(each.physicians_agree, each.judge_agrees) for each in found.labels} == {(1.0, 1.0)}
    assert "Agreement by rubric" in client.get(reverse("evaluation:run", args=at)).content.decode()


def inside(hits: int, n: int, rate: float) -> bool:
    low, high = wilson(hits, n, z=Z)
    return low <= rate <= high
