"""MedHal on MedQA, MedMCQA and SumPubMed as published, from files to reports and a training set."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from evaluation.models import Response
from evaluation.reports import formats, queries
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Batch, Sample, SampleVersion
from generation.models.work import Work
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.medhal import simulate
from review.models import User
from review.rules.blocks import Table
from tests.engine import SEED, endpoint, import_file, no_long_waits
from tests.profile import by_profile, public
from tests.review.approve import approve_everything

__all__ = ["no_long_waits"]
pytestmark = pytest.mark.django_db
FILES = {"medqa": "medqa/phrases_no_exclude_test.jsonl", "medmcqa": "medmcqa/dev.json", "sumpubmed": "sumpubmed"}
ROWS = {"medqa": 200, "medmcqa": 300, "sumpubmed": 20}
RECORDS = by_profile({"medqa": 15, "medmcqa": 15, "sumpubmed": 8}, ROWS)  # records of each; the thorough tests take all
REVIEWED = 3  # drawn for review per source and label


@pytest.fixture
def url() -> Iterator[str]:
    with run_in_background(make_app([simulate.SCRIPT], seed=SEED)) as address:
        yield address


def _run_batch(name: str, url: str) -> Batch:
    source = import_file(public(FILES[name]), name, name)
    assert source.records.count() == ROWS[name]
    batch = launch.launch_batch(
        BatchSettings(
            benchmark="medhal",
            source=source,
            roles={"generator": endpoint(url), "filter": endpoint(url, "sim-critic")},
            limit=RECORDS[name],
            changes={"training_only": False, "review_per_label": REVIEWED},
        )
    )
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED, batch.paused_detail
    return batch


def test_real_rows_become_measured_releases_and_a_training_set(
    url: str, physicians: list[User], tmp_path: Path
) -> None:
    batches = {name: _run_batch(name, url) for name in FILES}
    versions = SampleVersion.objects.all()
    counts = Counter(versions.values_list("content__source", "content__label"))
    for name in FILES:
        assert counts[name, "factual"] == counts[name, "non-factual"] > RECORDS[name] * 0.7
        shares, *_others = batches_queries.analysis(batches[name])
        assert isinstance(shares, Table)
        assert [row[0] for row in shares.rows] == [{"medqa": "MedQA", "medmcqa": "MedMCQA"}.get(name, "SumPubMed")]
    drawn_counts = Counter(
        versions.filter(provenance__review="sampled").values_list("content__source", "content__label")
    )
    # Of summaries only altered ones, and twice as many (the paper's second footnote).
    summaries = {("sumpubmed", "non-factual"): 2 * REVIEWED}
    assert drawn_counts == {key: REVIEWED for key in counts if key[0] != "sumpubmed"} | summaries

    approve_everything(physicians)
    outcomes_services.apply_outcomes()
    assert not Sample.objects.exclude(status="approved").exists()
    composition: dict[str, Any] = {"with_unreviewed": True}
    full = releases_services.freeze_release(
        "all", benchmark="medhal", composition=Composition(**composition, configuration="full")
    )
    assert full.samples_count == versions.count()
    filtered = releases_services.freeze_release(
        "lf", benchmark="medhal", composition=Composition(**composition, configuration="lf")
    )
    assert 0 < filtered.samples_count < full.samples_count  # some articles are too long; their pairs are left out whole
    pairs = Counter(filtered.samples.values_list("version__sample__record", "version__sample__bound"))
    assert set(pairs.values()) == {2}

    targets = [endpoint(url, "sim-careful")]
    run = runs_services.launch_run(RunSettings(release=filtered, endpoints=targets, datasets=["qa", "summarization"]))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    answered = Response.objects.filter(run=run, status=Work.Status.DONE).count()
    assert answered == filtered.samples_count
    report = formats.as_dict(queries.report(run))
    assert report["finished"]
    verdict_totals = {row["dataset"]: sum(row["verdicts"].values()) for row in report["overall"]}
    assert verdict_totals["qa"] + verdict_totals["summarization"] == answered

    call_command("export_release", "lf", format="training", out=tmp_path)
    parts = [tmp_path / f"{part}.jsonl" for part in ("train", "validation", "test")]
    lines = [json.loads(line) for path in parts for line in path.open(encoding="utf-8")]
    assert len({line["sample_id"] for line in lines}) == filtered.samples_count
