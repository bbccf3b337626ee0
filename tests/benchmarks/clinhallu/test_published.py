"""The means printed in the paper and the README are recomputed with the averages used in
reports."""

from pathlib import Path

import pytest

from evaluation.reports.numbers.averages import Averages, averages, mean
from mhb_site.benchmarks.clinhallu.published_results import AVERAGE, METRICS, read_published

FILE = Path(__file__).parents[4] / "shared" / "data" / "clinhallu_published" / "readme_results.csv"


@pytest.mark.skipif(not FILE.exists(), reason="the published results are not available")
def test_the_published_means_are_recomputed() -> None:
    rows = read_published(FILE.read_text(encoding="utf-8").splitlines())
    printed = {row.model: row.figures for row in rows if row.dataset == AVERAGE}
    assert (len(printed), len(rows)) == (11, 55)
    averages_of: dict[str, Averages] = {}
    for name in METRICS:
        cells = {(row.dataset, row.model): row.figures[name] for row in rows if row.dataset != AVERAGE}
        averages_of[name] = averages(cells)
        for model, figures in printed.items():
            recomputed = averages_of[name].by_model[model]
            assert recomputed is not None
            # The published figures are rounded.
            assert abs(recomputed - figures[name]) <= 0.1, (name, model, recomputed)
    assert round(averages_of["h_v"].by_dataset["VQA-RAD"] or 0, 1) == 42.9
    assert round(averages_of["h_k"].by_dataset["VQA-RAD"] or 0, 1) == 13.7
    assert round(averages_of["h_k"].by_dataset["MedXpertQA"] or 0, 1) == 43.1


def test_a_mean_without_one_of_its_values_is_none() -> None:
    assert mean([1.0, None]) is None
    assert mean([]) is None
    assert averages({("a", "m"): 1.0, ("a", "n"): 2.0, ("b", "m"): None}).by_dataset == {"a": 1.5, "b": None}
