"""HealthBench's own score, from its file to the report and the bundle."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.interchange import bundle, importing, rows
from evaluation.interchange.programs import verify_run
from evaluation.models import Run
from evaluation.reports import formats, queries
from generation.models import Facet, Release
from generation.sources.importers import healthbench
from tests.engine import bare_release
from tests.evaluation.test_pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]

# The example of the paper (Arora et al. 2025, section 3): 7 + 10 - 6 of 22 points.
EXAMPLE = ((7, 5, 10, -6), (True, False, True, True))
BAD = ((5, -6), (False, True))  # scores -6/5 on its own; only the mean is clipped
GOOD = ((3, 4, -2), (True, True, False))


def imported_rubrics(folder: Path, *samples: tuple[int, ...]) -> list[Any]:
    """The rubrics that the HealthBench importer reads from a file with these points per sample."""
    path = folder / "healthbench.jsonl"
    path.write_text("".join(
        json.dumps({
            "prompt_id": f"p-{at}", "prompt": [{"role": "user", "content": f"What now, {at}?"}],
            "rubrics": [{"criterion": f"Says {n}.", "points": value, "tags": []} for n, value in enumerate(points)],
        }) + "\n" for at, points in enumerate(samples)
    ))  # fmt: skip
    records = list(healthbench.rows(path, healthbench.sniff(path)))
    return [record.content["rubrics"] for record in records]  # type: ignore[union-attr]


def release_of(records: list[Any]) -> Release:
    """A release with these imported rubrics; the points of each are a facet."""
    release = bare_release(*[("dialogue", [["A1"]] * len(record)) for record in records], benchmark="healthbench")
    for sample, record in zip(release.samples.order_by("position"), records, strict=True):
        for rubric, imported in zip(sample.rubrics.order_by("pk"), record, strict=True):
            Facet.objects.create(rubric=rubric, name="points", value=str(imported["points"]))
    return release


def imported_run(folder: Path, release: Release, **verdicts: Sequence[Sequence[bool | None]]) -> Run:
    """A run of imported results, with the verdicts of each model on each sample."""
    path = folder / "results.jsonl"
    lines = []
    for model, by_sample in verdicts.items():
        for sample, met in zip(release.samples.order_by("position"), by_sample, strict=True):
            keys = sample.rubrics.order_by("pk").values_list("key", flat=True)
            lines += [
                {"sample": sample.key, "rubric": key, "model": model, "met": one}
                for key, one in zip(keys, met, strict=True)
            ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = importing.import_results(rows.read(path), release=release, study="healthbench")
    assert result.run is not None
    assert result.refusals == []
    return result.run


def scores(run: Run) -> dict[str, Any]:
    report = json.loads(formats.as_json(queries.report(run)))
    return {
        row["endpoint"]: row["rates"]["healthbench_score"] for row in report["overall"] if row["dataset"] == "dialogue"
    }


def test_the_published_example_gets_its_score(tmp_path: Path) -> None:
    release = release_of(imported_rubrics(tmp_path, EXAMPLE[0]))
    score = scores(imported_run(tmp_path, release, model=[EXAMPLE[1]]))["model"]
    assert score["value"] == 11 / 22
    assert (score["numerator"], score["denominator"], score["n"]) == (11, 22, 1)


def test_the_mean_over_samples_is_clipped_and_single_samples_are_not(tmp_path: Path) -> None:
    release = release_of(imported_rubrics(tmp_path, EXAMPLE[0], BAD[0], GOOD[0]))
    verdicts: dict[str, Sequence[Sequence[bool | None]]] = {
        "mixed": [EXAMPLE[1], BAD[1], GOOD[1]],
        "bad": [(False, False, False, True), BAD[1], (False, False, True)],
        "unsure": [EXAMPLE[1], (None, True), GOOD[1]],
    }
    by_model = scores(imported_run(tmp_path, release, **verdicts))
    assert by_model["mixed"]["value"] == pytest.approx((11 / 22 - 6 / 5 + 1) / 3)
    assert by_model["bad"]["value"] == 0.0
    assert by_model["unsure"]["value"] == pytest.approx((11 / 22 + 1) / 2), "a sample without a verdict is left out"
    assert (by_model["unsure"]["unjudged"], by_model["unsure"]["n"]) == (1, 2)


def test_the_score_has_an_interval_and_is_on_the_page_and_in_the_bundle(tmp_path: Path, admin_client: Client) -> None:
    release = release_of(imported_rubrics(tmp_path, *[EXAMPLE[0]] * 8, *[GOOD[0]] * 6))
    verdicts: dict[str, Sequence[Sequence[bool | None]]] = {
        "one": [EXAMPLE[1]] * 8 + [GOOD[1]] * 6,
        "other": [(True, True, at % 2 == 0, False) for at in range(8)] + [(False, True, True)] * 6,
    }
    run = imported_run(tmp_path, release, **verdicts)
    by_model = scores(run)
    for score in by_model.values():
        assert score["method"] == "skew-corrected-t"
        assert score["low"] < score["value"] < score["high"]
    comparisons = [row for row in queries.report(run).numbers.comparisons if row.rate == "healthbench_score"]
    assert {row.difference for row in comparisons if row.dataset == "dialogue"} == {
        by_model["one"]["value"] - by_model["other"]["value"]
    }
    page = text_of(admin_client.get(reverse("evaluation:run", args=[run.pk]), {"rate": "healthbench_score"}))
    assert "HealthBench score" in page
    assert f"{by_model['one']['value']:.3f}" in page
    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
