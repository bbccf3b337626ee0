"""The means printed in the paper and the README are recomputed with the averages used in
reports."""

import pytest

from evaluation.reports.numbers.averages import Averages, averages, mean
from mhb_site.benchmarks.clinhallu.published_results import AVERAGE, DATASETS, METRICS, TABLE_2


@pytest.mark.plain
def test_the_published_means_are_recomputed() -> None:
    printed = TABLE_2[AVERAGE]
    assert {len(models) for models in TABLE_2.values()} == {len(printed)} == {11}
    averages_of: dict[str, Averages] = {}
    for place, name in enumerate(METRICS):
        cells = {(task, model): values[place] for task in DATASETS for model, values in TABLE_2[task].items()}
        averages_of[name] = averages(cells)
        for model, figures in printed.items():
            recomputed = averages_of[name].by_model[model]
            assert recomputed is not None
            # The published figures are rounded.
            assert abs(recomputed - figures[place]) <= 0.1, (name, model, recomputed)
    # Finding 1 of the paper.
    assert round(averages_of["h_v"].by_dataset["vqa-rad"] or 0, 1) == 42.9
    assert round(averages_of["h_k"].by_dataset["vqa-rad"] or 0, 1) == 13.7
    assert round(averages_of["h_k"].by_dataset["medxpertqa"] or 0, 1) == 43.1


def test_a_mean_without_one_of_its_values_is_none() -> None:
    assert mean([1.0, None]) is None
    assert mean([]) is None
    assert averages({("a", "m"): 1.0, ("a", "n"): 2.0, ("b", "m"): None}).by_dataset == {"a": 1.5, "b": None}
