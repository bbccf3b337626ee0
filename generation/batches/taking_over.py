"""Makes published records into samples, many at once: a million of them would take days one draft after the other.

What comes of a record is the same as with its steps: a draft that has ended, a sample, its case with its events, its version
and rubrics. A case that somebody is to review is opened like any other.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings
from django.utils import timezone

from generation.common.bulk_rows import new_keys
from generation.endpoints import queries as endpoints_queries
from generation.engine.task_queue import finish_all, put_back, take
from generation.engine.worker_lane import ENDING
from generation.jobs import life_cycle
from generation.models import Batch, Draft, Rubric, Sample, SampleVersion, SourceRecord
from generation.models.work import Work
from generation.recipes import registry
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import NewSample
from generation.samples import queries as samples_queries
from generation.sources import queries as sources_queries
from review.assignments import services
from review.audit.trail import recording_events
from review.models import Case
from review.rules.case_spec import UNDETERMINED, CaseSpec
from review.rules.state_machine import position

CHUNK = 500  # samples of a transaction


def take_over(batch: Batch) -> int:
    """Make the published records of a batch into samples until none is queued, the batch is stopped or this process's time is
    up; returns how many. Records that steps have to make, and batches that make checks, are left to the lane."""
    finished = registry.recipe(batch.benchmark).finished
    if finished is None or batch.checks:
        return 0
    terms = samples_queries.terms(batch.benchmark)
    simulated = endpoints_queries.endpoints_of(batch).filter(simulated=True).exists()
    queued = Draft.objects.filter(batch=batch, step=0, parent=None, sample=None).order_by("pk")
    done, until = 0, time.monotonic() + settings.MHB_LANE_SECONDS
    while life_cycle.is_running(batch.pk) and not ENDING.is_set() and time.monotonic() < until:
        rows = take(queued, CHUNK)
        if not rows:
            break
        records = SourceRecord.objects.defer("private").in_bulk([row.record_id for row in rows])
        ready, others = [], []
        for row in rows:
            record = sources_queries.record_value(records[row.record_id], {})
            value = DraftValue(record, terms=terms, prompts=batch.prompts, settings=batch.settings)
            made = finished(value)
            if made is None:
                others.append(row)
            else:
                ready.append((row, made))
        for row in others:
            put_back(row)
        if ready:
            _make(batch, ready, simulated=simulated)
            done += len(ready)
        if others:
            break
    return done


@recording_events()  # opening a case is an event
def _make(batch: Batch, made: Sequence[tuple[Draft, NewSample]], *, simulated: bool) -> None:
    now = timezone.now()
    ours = finish_all([(row, Work.Status.DONE, {}) for row, _sample in made])
    known = [
        (row, replace(sample, language=sample.language or UNDETERMINED))
        for (row, sample), is_ours in zip(made, ours, strict=True)
        if is_ours
    ]
    if not known:
        return
    keys = new_keys(Sample, len(known))
    samples = [
        Sample(
            pk=key,
            benchmark=batch.benchmark,
            task=new.task,
            batch=batch,
            record_id=row.record_id,
            bound=new.bound,
            created_at=now,
        )
        for key, (row, new) in zip(keys, known, strict=True)
    ]
    specs = [
        registry.case_spec(batch.benchmark, new, sample.key, 1).with_history(asked_for=(), simulated=simulated)
        for sample, (_row, new) in zip(samples, known, strict=True)
    ]
    asked = [not position(spec.policy, []).state.final for spec in specs]
    for sample, is_asked in zip(samples, asked, strict=True):
        sample.status = Sample.Status.IN_REVIEW if is_asked else Sample.Status.APPROVED
    Sample.objects.bulk_create(samples)
    cases = _opened(specs, asked)
    versions = [
        SampleVersion(
            sample=sample,
            number=1,
            draft=row,
            case=cases[spec.lineage],
            title=new.title[:300],
            content=dict(new.content),
            status=SampleVersion.Status.IN_REVIEW if is_asked else SampleVersion.Status.APPROVED,
            simulated=simulated,
            prompt=new.prompt[:100],
            traps=list(dict.fromkeys(trap for rubric in new.rubrics for trap in rubric.traps)),
            made=dict(new.made),
            created_at=now,
        )
        for sample, spec, is_asked, (row, new) in zip(samples, specs, asked, known, strict=True)
    ]
    SampleVersion.objects.bulk_create(versions)
    Rubric.objects.bulk_create(
        Rubric(
            version=version,
            key=rubric.key,
            criterion=rubric.criterion,
            polarity=rubric.polarity,
            traps=list(rubric.traps),
        )
        for version, (_row, new) in zip(versions, known, strict=True)
        for rubric in new.rubrics
    )


def _opened(specs: Sequence[CaseSpec], asked: Sequence[bool]) -> dict[str, Case]:
    """The case of each lineage."""
    unreviewed = services.open_unreviewed([spec for spec, is_asked in zip(specs, asked, strict=True) if not is_asked])
    reviewed = [services.open_case(spec) for spec, is_asked in zip(specs, asked, strict=True) if is_asked]
    return {case.lineage: case for case in (*unreviewed, *reviewed)}
