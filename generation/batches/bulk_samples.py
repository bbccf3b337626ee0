"""Makes many samples at once: from published records, and for recipes that draw for review.

One draft after the other, a million published records would take days. And a draw for review is
possible only once all drafts of a batch have ended: until then, successful drafts wait without a
sample.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.fields.json import KeyTransform

from generation.batches import queries
from generation.batches.draw import first_by_rank, rank
from generation.batches.review_results import batches_of_draw, drawn_together
from generation.common.chunks import analyze_tables
from generation.engine.task_queue import finish_all, requeue, take
from generation.engine.watchdog import computing_for
from generation.engine.worker_lane import SHUTTING_DOWN
from generation.jobs import life_cycle
from generation.models import Batch, Draft, Job, Rubric, Sample, SampleVersion
from generation.models.work import Work
from generation.prompts import queries as prompts_queries
from generation.recipes import registry
from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import NOT_SAMPLED_FOR_REVIEW, SAMPLED_FOR_REVIEW
from generation.samples.services import make_versions
from review.audit.trail import recording_events
from review.models import Case, Event

CHUNK = 500  # samples in one transaction
STREAMED = 2_000
Status = Work.Status
_REVIEW = {True: SAMPLED_FOR_REVIEW, False: NOT_SAMPLED_FOR_REVIEW}


def make_finished_samples(batch: Batch) -> int:
    """Make samples of a batch's published records; return how many.

    Ends when no record is queued, the batch is stopped or this process's time is up. Records that
    need the recipe's steps, and batches that run checks, are left to the lane.
    """
    recipe = registry.recipe(batch.benchmark)
    if recipe.finished is None or batch.checks:
        return 0
    queued = Draft.objects.filter(batch=batch, step=0, parent=None, sample=None, status=Status.QUEUED).order_by("pk")
    if not queued.exists():
        return 0
    drawn = _draw_for_review(batch, queued, "record__content")
    done, deadline = 0, time.monotonic() + settings.MHB_LANE_SECONDS
    while life_cycle.is_running(batch.pk) and not SHUTTING_DOWN.is_set() and time.monotonic() < deadline:
        rows = take(queued, CHUNK)
        values = queries.draft_values(rows, joined=False)
        ready, unready = [], []
        with computing_for(batch):
            for row, value in zip(rows, values, strict=True):
                sample = recipe.finished(value)
                if sample is None:
                    unready.append(row)
                else:
                    ready.append((row, sample))
        for row in unready:
            requeue(row)
        if ready:
            _make_published(batch, ready, drawn)
            done += len(ready)
        if unready or not rows:
            break
    analyze_tables(Draft, Sample, SampleVersion, Rubric, Case, Event)
    return done


@recording_events()  # opening a case is an event
def _make_published(batch: Batch, made: Sequence[tuple[Draft, NewSample]], drawn: frozenset[int] | None) -> None:
    owned = finish_all([(row, Status.DONE, {}) for row, _sample in made])
    _make_samples(batch, list(compress(made, owned)), drawn)


def make_waiting_samples(batch: Batch) -> int:
    """Make samples of the successful drafts, once no draft of its draw is open; return how many.

    Safe to kill at any point, and safe to call concurrently.
    """
    if not _draws_for_review(batch):
        return 0
    waiting = _waiting_drafts([batch.pk])
    if not waiting.exists():
        return 0
    batches = drawn_together(batch)
    open_drafts = Draft.objects.filter(batch__in=batches, status__in=(Status.QUEUED, Status.RUNNING))
    if len(batches) < batches_of_draw(batch) or open_drafts.exclude(batch__status=Job.Status.CANCELLED).exists():
        return 0
    drawn = _draw_for_review(batch, _waiting_drafts(batches), "data")
    done = last = 0
    while rows := list(waiting.filter(pk__gt=last)[:CHUNK]):
        last = rows[-1].pk
        values = zip(rows, queries.draft_values(rows), strict=True)
        # Before the transaction:
        with prompts_queries.using(batch.benchmark, batch.prompt_set), computing_for(batch):
            made = [(row, registry.recipe(batch.benchmark).sample(value)) for row, value in values]
        done += _make_waiting(batch, made, drawn)
    return done


@recording_events()  # opening a case is an event
def _make_waiting(batch: Batch, made: Sequence[tuple[Draft, NewSample]], drawn: frozenset[int] | None) -> int:
    if life_cycle.lock_job(batch.pk).status == Job.Status.CANCELLED:
        return 0
    pks = [row.pk for row, _sample in made]
    still = set(_waiting_drafts([batch.pk]).filter(pk__in=pks).values_list("pk", flat=True))
    still_waiting = [(row, sample) for row, sample in made if row.pk in still]
    _make_samples(batch, still_waiting, drawn)
    return len(still_waiting)


def has_waiting_drafts(batch: Batch) -> bool:
    """Whether successful drafts have yet to be made into samples."""
    return _draws_for_review(batch) and batch.status != Job.Status.CANCELLED and _waiting_drafts([batch.pk]).exists()


def _draws_for_review(batch: Batch) -> bool:
    return registry.recipe(batch.benchmark).review_draw is not None


def _waiting_drafts(batches: Sequence[int]) -> QuerySet[Draft]:
    """The successful drafts without a sample of batches that were not cancelled.

    A draft that was split into several is done as well, but is not one of them.
    """
    children = Draft.objects.filter(parent=OuterRef("pk"))
    successful = Draft.objects.filter(batch__in=batches, status=Status.DONE, gate="", sample=None, version_made=None)
    successful = successful.exclude(batch__status=Job.Status.CANCELLED)
    return successful.filter(~Exists(children)).order_by("pk")


def _draw_for_review(batch: Batch, drafts: QuerySet[Draft], json_field: str) -> frozenset[int] | None:
    """Draw drafts for review, by primary key; None if the recipe draws none.

    The drafts are streamed. Each stratum contributes its first drafts in the order of a digest of
    seed, record and the draft's `place`, so that any worker draws the same. Earlier draws count
    towards the size.
    """
    draw = registry.recipe(batch.benchmark).review_draw
    if draw is None:
        return None
    size, seed = int(batch.settings.get(draw.size, 0)), str(batch.settings.get(draw.seed, 0))
    if not size:
        return frozenset()
    strata = [KeyTransform(key, "content") for key in draw.strata]
    earlier = SampleVersion.objects.filter(sample__batch__in=drawn_together(batch))
    before = earlier.filter(provenance__review=SAMPLED_FOR_REVIEW).order_by()
    drawn_before: Counter[tuple[Any, ...]] = Counter()
    for stratum in before.values_list(*strata).iterator(chunk_size=STREAMED):
        drawn_before[stratum] += 1

    def room_of(stratum: tuple[Any, ...]) -> int:
        return size * draw.multiples.get(stratum, 1) - drawn_before[stratum]

    transforms = [KeyTransform(key, json_field) for key in (*draw.strata, draw.place)]
    rows = drafts.values_list("pk", "record__external_id", *transforms).iterator(chunk_size=STREAMED)
    drawn = first_by_rank(_ranked(rows, seed), room_of)
    return frozenset(-negated for negated in drawn)


def _ranked(rows: Iterable[Sequence[Any]], seed: str) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """Each draft as `first_by_rank` takes it; of equal ranks, the earlier draft goes in."""
    for pk, external_id, *stratum, place in rows:
        yield tuple(stratum), rank(seed, f"{external_id}\x1f{place}"), -pk


def _make_samples(batch: Batch, new_samples: Sequence[tuple[Draft, NewSample]], drawn: frozenset[int] | None) -> None:
    """Make the samples of these drafts, which have ended, in the caller's transaction."""
    if drawn is None:
        make_versions(batch, new_samples)
        return
    marked = []
    for row, new in new_samples:
        provenance = {**new.provenance, "review": _REVIEW[row.pk in drawn]}
        marked.append((row, replace(new, provenance=provenance)))
    make_versions(batch, marked)
