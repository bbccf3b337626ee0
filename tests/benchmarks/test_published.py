"""The papers' numbers, shown in their layout beside one's own."""

import pytest

from evaluation import registry
from evaluation.published import PaperColumn, PublishedGroup, PublishedRow, PublishedTable, filled
from generation.recipes.registry import names, recipe

pytestmark = pytest.mark.plain
PAPERS = ("clinhallu", "medhal", "medhallu", "medmistake", "mhb")


@pytest.mark.parametrize("benchmark", PAPERS)
def test_every_column_shows_something_that_the_protocol_reports(benchmark: str) -> None:
    protocol, tables = registry.protocol(benchmark), registry.published(benchmark)
    assert tables
    rates = {rate.name for rate in protocol.rates}
    scores = {score.name for score in protocol.scores}
    datasets = {dataset.name for dataset in protocol.datasets}
    tasks = {dataset.task for dataset in protocol.datasets}
    facets = {facet.name for facet in protocol.facets}
    contrasts = {
        (first, measure) for first, _second, _label in protocol.contrasts for measure in ("gain", "fixed", "broken")
    }
    for table in tables:
        assert len({column.label for column in table.columns}) == len(table.columns), table.name
        for column in table.columns:
            assert column.dataset in {"", *datasets}
            assert column.facet in {"", *facets}
            match column.measure:
                case "rate":
                    assert column.name in rates
                case "score" | "scored":
                    assert column.name in scores
                case "samples":
                    assert column.facet
                case "count" | "share" if not column.facet:
                    assert column.value in {"", *tasks}
                case "drafts":
                    assert recipe(benchmark).shares
                case "gain" | "fixed" | "broken":
                    assert (column.dataset, column.measure) in contrasts
        for row in table.rows:
            assert len(row.values) == len(table.columns)
            assert row.group in {"", *(group.label for group in table.groups)}
            assert all(table.group_of(row.model) == row.group for row in table.rows if row.group and not row.mean)
        filled(table, {"a-model": [0.5] * len(table.columns)})
    assert registry.published("healthbench") == ()
    assert set(PAPERS) < set(names())


def test_the_combined_rate_of_the_paper_is_the_pooled_one() -> None:
    """Claude's rates give a weight of 30 % for dialogues, which then gives those of the others."""
    figure_3 = {row.model: row.values for row in registry.published("mhb")[0].rows}
    dialogue, report, combined = figure_3["Claude"]
    assert dialogue is not None
    assert report is not None
    assert combined is not None
    weight = (report - combined) / (report - dialogue)
    assert weight == pytest.approx(0.30, abs=0.01)
    for model, (of_dialogues, of_reports, printed) in figure_3.items():
        if of_dialogues is not None and of_reports is not None and printed is not None:
            assert of_dialogues * weight + of_reports * (1 - weight) == pytest.approx(printed, abs=0.002), model


def test_the_clusters_of_mhbs_figure_add_up_to_more_than_its_samples() -> None:
    """Section Results: 4,695 samples; a sample may carry traps of several clusters."""
    figure_2 = next(table for table in registry.published("mhb") if table.name == "Figure 2")
    [row] = figure_2.rows
    by_group: dict[str, list[str]] = {}
    for column in figure_2.columns:
        by_group.setdefault(column.group, []).append(column.value)
    assert by_group["Cluster"] == list("ABCDE")
    assert by_group["Type"] == ["A1", "A2", "A3", "A4", "A5", "B1", "B2", "B3", "C1", "C2", "C3", "D1", "D2", "E1"]
    assert sum(value or 0 for value in row.values) == 8_995 > 4_695


def test_own_models_stand_beside_the_published_ones_of_their_group_with_its_mean() -> None:
    groups = (PublishedGroup("General"), PublishedGroup("Medical", ("med",)))
    columns = (PaperColumn("F1", "f1"), PaperColumn("N", "bleu", measure="scored", digits=0, scale=1))
    rows = (PublishedRow("Old-Med", (0.5, 1200), "Medical"), PublishedRow("Old", (0.4, None), "General"))
    table = PublishedTable("Table 1", "A table", "Section 1", columns, rows, groups, means=True)
    own: dict[str, list[float | None]] = {"new-med-1": [0.7, 10.0], "new-med-2": [0.8, 30.0], "new": [None, 2.0]}
    lines = [(row.group, row.model, row.published, row.cells) for row in filled(table, own).rows]
    assert lines == [
        ("General", "Old", True, ("0.40", "–")),
        ("General", "new", False, ("–", "2")),
        ("General", "mean", False, ("–", "2")),
        ("Medical", "Old-Med", True, ("0.50", "1,200")),
        ("Medical", "new-med-1", False, ("0.70", "10")),
        ("Medical", "new-med-2", False, ("0.80", "30")),
        ("Medical", "mean", False, ("0.75", "20")),
    ]
