"""HealthBench's own score from its own file to the report, and the bounds of rates that are no proportion."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse

from evaluation.interchange import bundle, importing, rows
from evaluation.interchange.programs import verify_run
from evaluation.metrics import Totals, measure
from evaluation.models import Run
from evaluation.protocol import Rate
from evaluation.reports import formats, queries
from generation.models import Facet, Release
from generation.sources.importers import healthbench
from tests.engine import bare_release
from tests.evaluation.test_pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]

# The paper's example (Arora et al. 2025, section 3): 7 + 10 - 6 of 22 points.
EXAMPLE = ((7, 5, 10, -6), (True, False, True, True))
BAD = ((5, -6), (False, True))  # -6/5 by itself; only the mean is cut off
GOOD = ((3, 4, -2), (True, True, False))


def healthbench_file(folder: Path, *samples: tuple[int, ...]) -> list[Any]:
    """The records of a file in HealthBench's format, as its importer reads them."""
    path = folder / "healthbench.jsonl"
    path.write_text("".join(
        json.dumps({
            "prompt_id": f"p-{at}", "prompt": [{"role": "user", "content": f"What now, {at}?"}],
            "rubrics": [{"criterion": f"Says {n}.", "points": each, "tags": []} for n, each in enumerate(points)],
        }) + "\n" for at, points in enumerate(samples)
    ))  # fmt: skip
    found = list(healthbench.rows(path, healthbench.sniff(path)))
    return [row.content["rubrics"] for row in found]  # type: ignore[union-attr]


def release_of(records: list[Any]) -> Release:
    """A release of imported rubrics, each with its points as a facet."""
    release = bare_release(*[("dialogue", [["A1"]] * len(record)) for record in records])
    for sample, record in zip(release.samples.order_by("position"), records, strict=True):
        for rubric, told in zip(sample.rubrics.order_by("pk"), record, strict=True):
            Facet.objects.create(rubric=rubric, name="points", value=str(told["points"]))
    return release


def study(folder: Path, release: Release, **verdicts: Sequence[Sequence[bool | None]]) -> Run:
    """The verdicts of each model on each sample, imported."""
    path = folder / "results.jsonl"
    lines = []
    for model, of_samples in verdicts.items():
        for sample, met in zip(release.samples.order_by("position"), of_samples, strict=True):
            keys = sample.rubrics.order_by("pk").values_list("key", flat=True)
            lines += [
                {"sample": sample.key, "rubric": key, "model": model, "met": one}
                for key, one in zip(keys, met, strict=True)
            ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    came = importing.import_results(rows.read(path), release=release, study="healthbench")
    assert came.run is not None
    assert came.refusals == []
    return came.run


def scores(run: Run) -> dict[str, Any]:
    told = json.loads(formats.as_json(queries.report(run)))
    return {row["endpoint"]: row["rates"]["points_score"] for row in told["overall"] if row["dataset"] == "dialogue"}


def test_the_published_example(tmp_path: Path) -> None:
    release = release_of(healthbench_file(tmp_path, EXAMPLE[0]))
    found = scores(study(tmp_path, release, model=[EXAMPLE[1]]))["model"]
    assert found["value"] == 11 / 22
    assert (found["numerator"], found["denominator"], found["n"]) == (11, 22, 1)


def test_the_mean_over_samples_is_cut_off_and_not_the_samples(tmp_path: Path) -> None:
    release = release_of(healthbench_file(tmp_path, EXAMPLE[0], BAD[0], GOOD[0]))
    verdicts: dict[str, Sequence[Sequence[bool | None]]] = {
        "mixed": [EXAMPLE[1], BAD[1], GOOD[1]],
        "bad": [(False, False, False, True), BAD[1], (False, False, True)],
        "unsure": [EXAMPLE[1], (None, True), GOOD[1]],
    }
    found = scores(study(tmp_path, release, **verdicts))
    assert found["mixed"]["value"] == pytest.approx((11 / 22 - 6 / 5 + 1) / 3)
    assert found["bad"]["value"] == 0.0
    assert found["unsure"]["value"] == pytest.approx((11 / 22 + 1) / 2), "a sample without a verdict is left out"
    assert (found["unsure"]["unjudged"], found["unsure"]["n"]) == (1, 2)


def test_its_interval_its_page_and_its_bundle(tmp_path: Path, admin_client: Client) -> None:
    release = release_of(healthbench_file(tmp_path, *[EXAMPLE[0]] * 8, *[GOOD[0]] * 6))
    verdicts: dict[str, Sequence[Sequence[bool | None]]] = {
        "one": [EXAMPLE[1]] * 8 + [GOOD[1]] * 6,
        "other": [(True, True, at % 2 == 0, False) for at in range(8)] + [(False, True, True)] * 6,
    }
    run = study(tmp_path, release, **verdicts)
    found = scores(run)
    for each in found.values():
        assert each["method"] == "cluster-bootstrap"
        assert each["low"] < each["value"] < each["high"]
    compared = [each for each in queries.report(run).numbers.comparisons if each.rate == "points_score"]
    assert {each.difference for each in compared if each.dataset == "dialogue"} == {
        found["one"]["value"] - found["other"]["value"]
    }
    page = text_of(admin_client.get(reverse("evaluation:run", args=[run.pk]), {"rate": "points_score"}))
    assert "HealthBench score" in page
    assert f"{found['one']['value']:.3f}" in page
    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []


def test_releases_without_points_have_no_such_rate(tmp_path: Path) -> None:
    run = study(tmp_path, bare_release(("dialogue", [["A1"]])), model=[(True,)])
    assert "points_score" not in {rate.name for rate in queries.report(run).rates}


# --------------------------------------------------------------------------------------------------------------- bounds


def whole(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def test_f1_is_bounded_by_what_was_not_judged() -> None:
    f1 = Rate("f1", "F1", "", {"tp": 2}, {"tp": 2, "fp": 1, "fn": 1}, frozenset({"tp", "fp", "fn", "tn"}), "bootstrap")
    found = measure(f1, Totals(whole(4, 2), whole(5, 4), whole(3, 3), whole(1, 2)), better="high")
    assert found.bounds is not None
    assert found.value == 6 / 9
    assert (found.bounds.best, found.bounds.worst) == (12 / 15, 6 / 12)


def test_a_weighted_rate_is_bounded_by_what_has_a_weight() -> None:
    harm = Rate(
        "harm", "Harm", "", {"not_met": 1}, {"met": 1, "not_met": 1}, weighted="severity", weights={"severe": 5}
    )
    totals = Totals(whole(5, 0), whole(10, 3), whole(2, 1), whole(1, 4), missing=whole(5, 0))
    found = measure(harm, totals, better="low")
    assert found.bounds is not None
    assert (found.bounds.best, found.bounds.worst) == (5 / 18, 10 / 18)
