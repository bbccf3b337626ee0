"""Makes many samples at once: of published records, and of the drafts of recipes that draw a sample of them for review.

A million published records would take days one draft after the other. And whom a draw takes is known only once all drafts of a
batch have ended: until then, those that came through wait, ended and without a sample.

What comes of a draft is what `samples.services.make_version` makes of it. A case that somebody is to review is opened like any
other.
"""

import hashlib
import heapq
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.fields.json import KeyTransform
from django.utils import timezone

from generation.batches import queries
from generation.endpoints import queries as endpoints_queries
from generation.engine.task_queue import finish_all, put_back, take
from generation.engine.worker_lane import ENDING
from generation.jobs import life_cycle
from generation.models import Batch, Draft, Job, Rubric, Sample, SampleVersion
from generation.models.work import Work
from generation.recipes import registry
from generation.recipes.recipe import DRAWN, NOT_DRAWN, NewSample, ReviewDraw
from generation.samples.services import generator_of
from review.assignments import services
from review.audit.trail import recording_events
from review.common import bulk_rows
from review.models import Case, Event
from review.rules.case_spec import UNDETERMINED, CaseSpec
from review.rules.state_machine import position

CHUNK = 500  # samples of a transaction
STREAMED = 2_000
MADE = (Draft, Sample, SampleVersion, Rubric, Case, Event)
Status = Work.Status


def take_over(batch: Batch) -> int:
    """Make the published records of a batch into samples until none is queued, the batch is stopped or this process's time is
    up; returns how many. Records that steps have to make, and batches that make checks, are left to the lane."""
    recipe = registry.recipe(batch.benchmark)
    if recipe.finished is None or batch.checks:
        return 0
    queued = Draft.objects.filter(batch=batch, step=0, parent=None, sample=None, status=Status.QUEUED).order_by("pk")
    if not queued.exists():
        return 0
    drawn = _drawn(batch, queued, "record__content")
    count_at = bulk_rows.MANY
    done, until = 0, time.monotonic() + settings.MHB_LANE_SECONDS
    while life_cycle.is_running(batch.pk) and not ENDING.is_set() and time.monotonic() < until:
        rows = take(queued, CHUNK)
        ready, others = [], []
        for row, value in zip(rows, queries.draft_values(rows, joined=False), strict=True):
            made = recipe.finished(value)
            if made is None:
                others.append(row)
            else:
                ready.append((row, made))
        for row in others:
            put_back(row)
        if ready:
            _take_over(batch, ready, drawn)
            done += len(ready)
            if done >= count_at:
                bulk_rows.counted(MADE)
                count_at = 10 * done
        if others or not rows:
            break
    if done >= bulk_rows.MANY:
        bulk_rows.counted(MADE)
    return done


@recording_events()  # opening a case is an event
def _take_over(batch: Batch, made: Sequence[tuple[Draft, NewSample]], drawn: frozenset[int] | None) -> None:
    ours = finish_all([(row, Status.DONE, {}) for row, _sample in made])
    _make(batch, [one for one, is_ours in zip(made, ours, strict=True) if is_ours], drawn)


def gather(batch: Batch) -> int:
    """Make samples of the drafts that came through, once no draft of the batch is open; returns how many.

    It may be killed at any point, and called by several at once.
    """
    if not _gathers(batch) or Draft.objects.filter(batch=batch, status__in=(Status.QUEUED, Status.RUNNING)).exists():
        return 0
    waiting = _waiting(batch)
    if not waiting.exists():
        return 0
    drawn = _drawn(batch, waiting, "data")
    done = last = 0
    while rows := list(waiting.filter(pk__gt=last)[:CHUNK]):
        last = rows[-1].pk
        done += _gather(batch, rows, drawn)
    return done


@recording_events()  # opening a case is an event
def _gather(batch: Batch, rows: Sequence[Draft], drawn: frozenset[int] | None) -> int:
    if life_cycle.locked(batch.pk).status == Job.Status.CANCELLED:
        return 0
    free = list(_waiting(batch).filter(pk__in=[row.pk for row in rows]))
    sample = registry.recipe(batch.benchmark).sample
    _make(batch, [(row, sample(value)) for row, value in zip(free, queries.draft_values(free), strict=True)], drawn)
    return len(free)


def waits(batch: Batch) -> bool:
    """Whether drafts that came through are still to be made into samples."""
    return _gathers(batch) and batch.status != Job.Status.CANCELLED and _waiting(batch).exists()


def waiting_batches() -> Iterable[Batch]:
    """Batches of which a worker may have died before it made samples of what came through."""
    for name in registry.names():
        if registry.recipe(name).drawn is not None:
            alive = Batch.objects.filter(benchmark=name).exclude(status__in=(Job.Status.CANCELLED, Job.Status.FINISHED))
            yield from (batch for batch in alive if waits(batch))


def _gathers(batch: Batch) -> bool:
    return registry.recipe(batch.benchmark).drawn is not None


def _waiting(batch: Batch) -> QuerySet[Draft]:
    """The drafts that came through and are no sample yet. One that became several has ended as well, and is none of them."""
    split = Draft.objects.filter(parent=OuterRef("pk"))
    came = Draft.objects.filter(batch=batch, status=Status.DONE, gate="", sample=None, version_made=None)
    return came.filter(~Exists(split)).order_by("pk")


def _drawn(batch: Batch, drafts: QuerySet[Draft], where: str) -> frozenset[int] | None:
    """Which of these drafts are drawn for review; None where the recipe draws none. They are streamed.

    Of each stratum the first so many by a digest of the seed, the record and the draft's `place` within it: any worker draws
    the same. What was drawn before counts.
    """
    draw = registry.recipe(batch.benchmark).drawn
    if draw is None:
        return None
    size, seed = int(batch.settings.get(draw.size, 0)), str(batch.settings.get(draw.seed, 0))
    if not size:
        return frozenset()
    before = _drawn_before(batch, draw)
    read = [KeyTransform(key, where) for key in (*draw.strata, draw.place)]
    heaps: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    rows = drafts.values_list("pk", "record__external_id", *read)
    for pk, external_id, *stratum, place in rows.iterator(chunk_size=STREAMED):
        digest = hashlib.sha256(f"{seed}\x1f{external_id}\x1f{place}".encode(errors="surrogatepass")).digest()
        heap = heaps.setdefault(tuple(stratum), [])
        room = size - before[tuple(stratum)]
        if (
            room > 0
        ):  # heapq keeps the smallest in front, and the one to go is the last by place: so the places are negated
            (heapq.heappush if len(heap) < room else heapq.heappushpop)(heap, (-int.from_bytes(digest[:8]), -pk))
    return frozenset(-pk for heap in heaps.values() for _place, pk in heap)


def _drawn_before(batch: Batch, draw: ReviewDraw) -> Counter[tuple[Any, ...]]:
    """How many samples of each stratum were drawn already."""
    read = [KeyTransform(key, "content") for key in draw.strata]
    made = SampleVersion.objects.filter(sample__batch=batch, made__review=DRAWN).order_by()
    return Counter(tuple(stratum) for stratum in made.values_list(*read).iterator(chunk_size=STREAMED))


def _make(batch: Batch, made: Sequence[tuple[Draft, NewSample]], drawn: frozenset[int] | None) -> None:
    """The samples of these drafts, which have ended, in the transaction of the caller."""
    if not made:
        return
    now = timezone.now()
    simulated = endpoints_queries.endpoints_of(batch).filter(simulated=True).exists()
    generator = generator_of(batch)
    known = [(row, _settled(row, new, drawn)) for row, new in made]
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
        for key, (row, new) in zip(bulk_rows.new_keys(Sample, len(known)), known, strict=True)
    ]
    specs = [
        registry.case_spec(batch.benchmark, new, sample.key, 1).with_history(asked_for=(), simulated=simulated)
        for sample, (_row, new) in zip(samples, known, strict=True)
    ]
    asked = [not position(spec.policy, []).state.final for spec in specs]
    for sample, is_asked in zip(samples, asked, strict=True):
        sample.status = Sample.Status.IN_REVIEW if is_asked else Sample.Status.APPROVED
    bulk_rows.store(samples)
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
            generator=generator,
            traps=list(dict.fromkeys(trap for rubric in new.rubrics for trap in rubric.traps)),
            made=dict(new.made),
            created_at=now,
        )
        for sample, spec, is_asked, (row, new) in zip(samples, specs, asked, known, strict=True)
    ]
    bulk_rows.store(versions)
    rubrics = [
        Rubric(
            version=version,
            key=rubric.key,
            criterion=rubric.criterion,
            polarity=rubric.polarity,
            traps=list(rubric.traps),
        )
        for version, (_row, new) in zip(versions, known, strict=True)
        for rubric in new.rubrics
    ]
    bulk_rows.store(rubrics)


def _settled(row: Draft, made: NewSample, drawn: frozenset[int] | None) -> NewSample:
    """A new sample with what the engine says of it: whether it was drawn, and that nobody knows its language."""
    how: Mapping[str, str] = made.made
    if drawn is not None:
        how = {**how, "review": DRAWN if row.pk in drawn else NOT_DRAWN}
    return replace(made, language=made.language or UNDETERMINED, made=how)


def _opened(specs: Sequence[CaseSpec], asked: Sequence[bool]) -> dict[str, Case]:
    """The case of each lineage."""
    unreviewed = services.open_unreviewed([spec for spec, is_asked in zip(specs, asked, strict=True) if not is_asked])
    reviewed = [services.open_case(spec) for spec, is_asked in zip(specs, asked, strict=True) if is_asked]
    return {case.lineage: case for case in (*unreviewed, *reviewed)}
