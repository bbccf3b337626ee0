"""The means printed in the paper and the README are recomputed with the averages used in
reports."""

import pytest

from evaluation import registry
from evaluation.numbers.averages import Averages, averages, mean

# Table 2: the printed averages of accuracy and the three rates of hallucination.
AVERAGES = {
    "Qwen3-VL-Flash": (63.6, 52.1, 20.0, 7.6),
    "Qwen3-VL-Plus": (67.2, 47.2, 12.5, 4.7),
    "Gemini-3-Flash": (80.1, 25.8, 4.0, 2.3),
    "Qwen2.5-VL-7B": (42.7, 65.9, 45.5, 18.1),
    "Qwen3-VL-8B": (51.5, 60.5, 33.2, 7.8),
    "Lingshu-7B": (52.7, 52.2, 27.3, 13.6),
    "MedGemma-4B": (53.2, 51.1, 33.4, 30.5),
    "InternVL3.5-8B": (53.9, 45.6, 26.6, 6.6),
    "Qwen3-VL-32B": (63.8, 50.8, 18.8, 4.4),
    "Qwen3.5-4B": (64.3, 52.0, 30.5, 5.1),
    "Qwen3.5-9B": (69.1, 41.9, 18.7, 4.8),
}


@pytest.mark.plain
def test_the_published_means_are_recomputed() -> None:
    table = registry.published("clinhallu")[0]
    assert {row.model for row in table.rows} == AVERAGES.keys()
    averages_of: dict[str, Averages] = {}
    for place, name in enumerate(("accuracy", "h_visual", "h_knowledge", "h_reasoning")):
        cells = {
            (column.group, row.model): value
            for row in table.rows
            for column, value in zip(table.columns, row.values, strict=True)
            if column.name == name
        }
        averages_of[name] = averages(cells)
        for model, figures in AVERAGES.items():
            recomputed = averages_of[name].by_model[model]
            assert recomputed is not None
            # The published figures are rounded.
            assert abs(recomputed - figures[place]) <= 0.1, (name, model, recomputed)
    # Finding 1 of the paper.
    assert round(averages_of["h_visual"].by_dataset["VQA-RAD"] or 0, 1) == 42.9
    assert round(averages_of["h_knowledge"].by_dataset["VQA-RAD"] or 0, 1) == 13.7
    assert round(averages_of["h_knowledge"].by_dataset["MedXpertQA"] or 0, 1) == 43.1


def test_a_mean_without_one_of_its_values_is_none() -> None:
    assert mean([1.0, None]) is None
    assert mean([]) is None
    assert averages({("a", "m"): 1.0, ("a", "n"): 2.0, ("b", "m"): None}).by_dataset == {"a": 1.5, "b": None}
