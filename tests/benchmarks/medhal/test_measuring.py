"""MedHal's real pipeline on simulated detectors: their set precision and recall come out, and their explanations are scored."""

from collections.abc import Iterator

import pytest

from evaluation.models import ResponseScore
from evaluation.reports import queries
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.llm.simulator.server import make_app, run_in_background
from mhb_site.benchmarks.medhal import simulate_detection
from tests.benchmarks.medhal.statements import released, statement
from tests.engine import endpoint

COUNT = 300  # of each label


class Detectors:
    """The simulated detectors alone."""

    reply = staticmethod(simulate_detection.reply)


@pytest.fixture(scope="module")
def detectors() -> Iterator[str]:
    with run_in_background(make_app([Detectors()], seed=3, retry_after=0.001)) as url:
        yield url


@pytest.mark.django_db
def test_set_precision_and_recall_are_recovered(detectors: str) -> None:
    contents = [
        statement(at, factual=label, task=("qa", "ie")[at % 2], context="He has high blood pressure." if at % 2 else "")
        for at in range(COUNT)
        for label in (True, False)
    ]
    model = "sim-average"
    run = services.launch_run(RunSettings(released(contents), [endpoint(detectors, model)]))
    assert run.variants == ["qa", "ie"]  # the usual prompt alone
    work.work_on_run(run.pk)
    run.refresh_from_db()
    report = queries.report(run)
    [combined] = [row for row in report.overall if row.dataset == "combined"]
    true = simulate_detection.true_rates(model, COUNT, COUNT)
    for name in ("precision", "recall", "f1"):
        low, high = combined.rates[name].interval or (1, 0)
        assert low <= true[name] <= high, (name, true[name], low, high)
    assert combined.rates["f1"].excluded == sum(
        n for name, n in combined.verdicts.items() if name.startswith("unparsed")
    )
    assert {row.value for row in report.facets["source"]} == {"medqa", "acn"}
    assert {row.value for row in report.facets["length"]} == {"none", "short"}

    scored = next(row for row in report.numbers.scores if row.dataset == "combined")
    explained = ResponseScore.objects.filter(run=run).count()
    assert 0 < explained == scored.scores["bleu"].n < combined.verdicts["tn"]  # some do not explain
    assert scored.scores["bleu"].n + scored.scores["bleu"].without == 2 * COUNT
    assert (scored.scores["rouge1"].mean or 0) > 0.95  # the simulated explanation is the true one, but for the mark
