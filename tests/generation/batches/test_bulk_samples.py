"""Samples of published records, made in bulk: same cases, trail and counts as one by one."""

import json
from collections import Counter
from pathlib import Path

import pytest
from django.db import connection

from generation.batches import bulk_samples, launch, services
from generation.batches.launch import BatchSettings
from generation.models import Batch, Draft, Rubric, Sample, SampleVersion
from generation.models.work import Work
from review.audit import verification
from review.models import Case, Event
from review.rules.case_spec import spec_to_json
from tests.engine import import_file

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def batch_of(folder: Path, count: int) -> Batch:
    """A batch of published statements, one of each label drawn for review."""
    rows = [
        {
            "id": f"row-{at}",
            "context": None,
            "statement": f"Drug {at} is new.",
            "label": at % 2 == 0,
            "explanation": "It is.",
            "inner_id": str(at),
            "source": "medqa",
            "synthetic": False,
        }
        for at in range(count)
    ]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"review_per_label": 1}
    source = import_file(path, format_name="medhal")
    return launch.launch_batch(BatchSettings(benchmark="medhal", source=source, roles={}, checks=(), changes=changes))


def test_unreviewed_samples_in_bulk_are_stored_like_single_ones(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 30)
    assert services.work_on_batch(batch.pk) == 30
    assert Counter(Sample.objects.values_list("status", flat=True)) == {"approved": 28, "in-review": 2}
    assert Rubric.objects.count() == SampleVersion.objects.count() == Case.objects.count() == 30
    assert set(Draft.objects.values_list("status", flat=True)) == {Work.Status.DONE}
    assert Counter(Event.objects.values_list("kind", flat=True)) == {"opened": 30, "closed": 28}
    assert set(Event.objects.filter(kind="closed").values_list("number", flat=True)) == {2}
    result = verification.run(verification.create_check(None).pk)
    assert (result.checked, result.faults_count) == (58 + 2, 0)  # the import and the launch
    for case in Case.objects.filter(ground="unreviewed"):
        assert case.spec == spec_to_json(case.frozen)
        version = SampleVersion.objects.get(case=case)
        assert (version.sample.key, version.title) == (case.lineage, version.content["statement"])


def test_postgresql_analyzes_tables_after_many_rows(tmp_path: Path) -> None:
    """Without ANALYZE, the planner still takes the tables for small, and queries take minutes."""
    services.work_on_batch(batch_of(tmp_path, 4).pk)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT reltuples FROM pg_class WHERE relname = %s", [SampleVersion._meta.db_table])
            assert cursor.fetchone() == (4,)


def test_drafts_left_when_time_is_up_are_not_made_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(tmp_path, 5)
    # The start, the deadline, the check before the first chunk; from then on the time is up.
    now = iter([0.0, 0.0, 0.0, 1e9, 1e9, 1e9])
    with monkeypatch.context() as patch:
        patch.setattr(bulk_samples, "CHUNK", 2)
        patch.setattr("generation.batches.bulk_samples.time.monotonic", lambda: next(now, 1e9))
        assert services.work_on_batch(batch.pk) == 2
    assert batch.drafts.filter(status=Work.Status.QUEUED).count() == 3
    assert services.work_on_batch(batch.pk) == 3
