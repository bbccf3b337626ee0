"""A model that sees, with known errors in each stage, is recovered by the rates of the stages and the gains they imply."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.models import Response, Run
from evaluation.reports import queries
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.models import Call
from mhb_site.benchmarks.clinhallu.simulate_answers import SEERS, true_rates
from review.rules.wilson_interval import wilson
from tests.benchmarks.clinhallu.traced import seers, traced_release
from tests.engine import endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Z = 3.3  # two-sided 99.9 %
COUNTS = {"vqa-rad": 40, "medframeqa": 30}
WHERE = {"h_visual": "rep-k", "h_knowledge": "rep-v", "h_reasoning": "rep-vk"}


@pytest.fixture
def run(db: None, settings: Any, tmp_path: Path) -> Run:
    settings.MHB_DATA_DIR = tmp_path
    release = traced_release(COUNTS)
    with seers() as url:
        tested = [endpoint(url, model) for model in SEERS]
        run = services.launch_run(RunSettings(release, tested, endpoint(url, "sim-judge")))
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    return run


def test_the_true_rates_are_recovered(run: Run, tmp_path: Path) -> None:
    report = queries.report(run)
    rows = {(row.endpoint, row.dataset): row.rates for row in report.overall}
    for model in SEERS:
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

    # The released code's denominator leaves out what is no valid trace, and says how many.
    for model, seer in SEERS.items():
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


def inside(hits: int, n: int, rate: float) -> bool:
    low, high = wilson(hits, n, z=Z)
    return low <= rate <= high
