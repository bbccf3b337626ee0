"""Freezes approved samples into releases: a job that any worker can restart from the beginning."""

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.core.exceptions import ValidationError
from django.db import DatabaseError, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import salted_hmac

from generation import errors
from generation.common.chunks import analyze_tables
from generation.engine.task_queue import check_tries, finish, keep, requeue_expired, take
from generation.llm.errors import GivenUp
from generation.models import Facet, Freeze, Release, ReleasedRubric, ReleasedSample, SampleVersion
from generation.models.work import Work
from generation.outcomes.services import apply_outcomes
from generation.probes import services as probes_services
from generation.probes.measuring import ProbeCase
from generation.probes.queries import STORED
from generation.probes.reading import has_labelled_answers
from generation.probes.services import ProbingLost
from generation.probes.stored import to_json
from generation.recipes import registry
from generation.releases import integrity, queries, ratings
from generation.releases.freezing import content
from generation.releases.freezing.card_facts import card_facts, funnel_of
from generation.releases.freezing.card_fields import merge_card
from generation.releases.freezing.composition import EASY, Composition, Tally, choices, tally
from generation.releases.freezing.filtered import FilteredRelease, filter_release
from generation.releases.freezing.spool import Spool
from generation.samples import funnel
from generation.samples import queries as samples_queries
from review.audit import acts, verification
from review.audit.trail import PERSON_EVENTS, recording_events
from review.common import notifications
from review.common.disk import is_disk_full
from review.common.waking import wake_after_commit
from review.errors import DiskFull, ShownError
from review.models import ChainHead, Occasion, User
from review.rules.state_machine import Ground

FREEZE_TRIES = 3  # a freeze that kills its worker would kill the next one, too
EVERYTHING = Composition()
FILTER = "filter"  # in `Release.about`
RENEW_EVERY = 500  # samples between two renewals of the lease


@dataclass(frozen=True, slots=True)
class FreezePreview:
    """The samples that would go into a release, by status, and those left out, by reason.

    `before`: the number of samples of the previous version.
    """

    release: str
    samples: int
    approved: int
    not_sampled: int
    held_out: int
    grounds: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]  # source, task, language, arm, simulated -> value -> samples
    excluded: Mapping[str, int]
    before: int
    shares: Mapping[str, float]  # of each task

    @property
    def seen(self) -> str:
        """The counts as the form sends them back: if they differ, something has changed since."""
        approved = f"{self.approved}+{self.not_sampled}"
        if self.held_out:
            return f"{approved}-{self.held_out}"
        return approved


def preview(name: str, *, benchmark: str, composition: Composition = EVERYTHING) -> FreezePreview:
    """The preview of `freeze_release`, with what physicians have just decided.

    Raises like it, except NothingNew, which would need writing everything out.
    """
    latest = _latest(name, benchmark)
    apply_outcomes()
    composition = _with_seed(name, composition)
    counted = tally(benchmark, composition)
    held_out = 0
    if composition.held_out:
        held_out = sum(is_held_out for _pk, is_held_out in choices(benchmark, composition))
    unreviewed = counted.grounds.get(Ground.UNREVIEWED, 0)
    version, before = 1, 0
    if latest:
        version, before = latest.version + 1, latest.samples_count
    return FreezePreview(
        release=f"{name} v{version}",
        samples=counted.samples,
        approved=counted.samples - unreviewed,
        not_sampled=unreviewed,
        held_out=held_out,
        grounds=counted.grounds,
        counts=counted.counts,
        excluded=counted.excluded,
        before=before,
        shares=queries.shares_of(counted.counts["task"]),
    )


def start_freeze(
    name: str,
    *,
    benchmark: str,
    composition: Composition = EVERYTHING,
    card: Mapping[str, str] | None = None,
    actor: User | None = None,
) -> Freeze:
    """Register a release to freeze; a worker (or `run_freeze`) does it.

    What physicians have just decided is applied first.
    `card`: texts for the data card (`card_fields`); others stay as in the previous version.

    Raises NothingApproved (no sample qualifies), OtherBenchmark (the name belongs to a release of
    another benchmark), MixedSimulated (mixing simulated and real samples was not allowed),
    FreezeInProgress (a release of this name is being frozen), WrongCard, ValidationError (`name` is
    not a valid name).
    """
    merged_card = merge_card(_card_of(_latest(name, benchmark)), card or {})
    apply_outcomes()
    composition = _with_seed(name, composition)
    counted = tally(benchmark, composition)
    with recording_events():
        ChainHead.objects.select_for_update().get(pk=PERSON_EVENTS)  # two may start at once
        if Freeze.objects.filter(name=name, status__in=[Work.Status.QUEUED, Work.Status.RUNNING]).exists():
            raise errors.FreezeInProgress(name)
        acts.record_act(acts.Kind.FREEZE, "started", name, actor, benchmark=benchmark, samples=counted.samples)
        row = Freeze.objects.create(
            name=name,
            benchmark=benchmark,
            composition=composition.as_json(),
            card=merged_card,
            total=counted.samples,
            created_by=actor,
            created_at=timezone.now(),
        )
    wake_after_commit("generation.tasks.run_freeze", row.pk)
    return row


def run_freeze(freeze_id: int) -> Freeze:
    """Freeze, unless somebody else does, and return the row afterwards.

    A killed freeze restarts from the beginning.
    """
    for row in take(Freeze.objects.filter(pk=freeze_id).order_by("pk"), 1):
        try:
            check_tries(row, FREEZE_TRIES)
            _freeze(row)
        except (errors.GenerationError, ValidationError, GivenUp) as error:
            _fail(row, error)
        except (OSError, DatabaseError) as error:
            if not is_disk_full(error):
                raise
            _fail(row, DiskFull())  # at once: on this disk the next try would fail, too
    return Freeze.objects.get(pk=freeze_id)


def freeze_release(
    name: str,
    *,
    benchmark: str,
    composition: Composition = EVERYTHING,
    card: Mapping[str, str] | None = None,
    actor: User | None = None,
) -> Release:
    """Freeze in this process.

    Raises what `start_freeze` raises, and NothingNew if the result would equal the latest version.
    """
    row = start_freeze(name, benchmark=benchmark, composition=composition, card=card, actor=actor)
    while (row := run_freeze(row.pk)).status in (Work.Status.QUEUED, Work.Status.RUNNING):
        time.sleep(0.1)  # a worker took it, or a sample was withdrawn in the meantime
    return release_of(row)


def release_of(row: Freeze) -> Release:
    """The release made by a freeze. Raises the error that ended it."""
    if row.release is not None:
        return row.release
    kind = getattr(errors, row.error, errors.GenerationError)
    raise kind(row.detail)


def _fail(row: Freeze, error: Exception) -> None:
    if isinstance(error, ShownError):
        detail = error.detail
    else:
        detail = str(error)
    with transaction.atomic():
        if finish(row, Work.Status.FAILED, error=type(error).__name__, detail=detail, finished_at=timezone.now()):
            path = reverse("generation:releases")
            notifications.tell(
                Occasion.FAILED, [row.created_by], release=row.name, because=type(error).__name__, path=path
            )


def sweep() -> list[int]:
    """Return freezes of lost workers to the queue; return the ids of all queued ones."""
    requeue_expired(Freeze)
    return list(Freeze.objects.filter(status=Work.Status.QUEUED).values_list("pk", flat=True))


def _latest(name: str, benchmark: str) -> Release | None:
    """The latest version with this name, if any.

    Raises OtherBenchmark, ValidationError, UnknownBenchmark.
    """
    registry.recipe(benchmark)
    Release._meta.get_field("name").clean(name, None)
    latest = Release.objects.filter(name=name).order_by("-version").first()
    if latest is not None and latest.benchmark != benchmark:
        raise errors.OtherBenchmark(latest.benchmark)
    return latest


def _with_seed(name: str, composition: Composition) -> Composition:
    """The composition with a seed by which nobody else can work out what it holds out.

    It is that of the release before, so that what was held out does not become public; of a
    version of the same name, if there is one.
    """
    if composition.seed or not composition.held_out:
        return composition
    earlier = Release.objects.filter(held_out_count__gt=0).order_by("-pk")
    before = earlier.filter(name=name).first() or earlier.first()
    if before is not None:
        seed = before.composition["seed"]
    else:
        digest = salted_hmac("generation.releases.seed", "", algorithm="sha256").digest()
        seed = int.from_bytes(digest[:6])  # JavaScript reads whole numbers below 2^53
    return composition.model_copy(update={"seed": seed})


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of the samples while they were spooled.

    reviewed: of each split, the id and version of each reviewed sample, and the key of its case.
    """

    totals: content.ReleaseTotals
    labelled: list[ProbeCase]
    reviewed: dict[str, list[tuple[str, int, int]]]


def _freeze(row: Freeze) -> None:
    """Read all, then store all in one transaction: readers see the whole release or nothing."""
    composition = Composition.from_json(row.composition)
    latest = _latest(row.name, row.benchmark)
    counted = tally(row.benchmark, composition)
    # Select once: samples approved while we write belong to the next version.
    chosen = np.fromiter(choices(row.benchmark, composition), dtype=content.CHOSEN)
    canary = f"{row.name}-{uuid.uuid4()}"
    if latest is not None and latest.canary:
        canary = latest.canary
    terms = samples_queries.terms(row.benchmark)
    filtered = None
    if composition.harder:
        filtered = filter_release(row.benchmark, chosen, terms, canary, composition.harder, composition.seed)
        chosen = filtered.chosen
    if not keep(row, read=0, total=len(chosen)):
        return
    with Spool() as spool:
        read = _read(row, content.frozen_samples(row.benchmark, chosen, terms, canary), len(chosen), spool)
        if read is None:
            return
        totals = read.totals
        digests = (spool.digest(), spool.digest_if_any(ReleasedSample.Split.HELD_OUT))
        if latest is not None and (latest.sha256, latest.held_out_sha256, _card_of(latest)) == (*digests, row.card):
            raise errors.NothingNew(str(latest))
        try:
            probed = _probed(row, read.labelled)
        except ProbingLost:
            return
        excluded = dict(counted.excluded)
        if filtered:
            excluded[EASY] = filtered.about["samples"]
        fields: dict[str, Any] = {
            "samples_count": totals.samples,
            "rubrics_count": totals.rubrics,
            "counts": totals.facets.counts(),
            "sources": content.sources(chosen, totals.sources),
            "generators": content.generators(totals.batches),
            "provenance": totals.provenance(),
            "grounds": dict(sorted(totals.grounds.items())),
            "reviewers": {
                "physicians": len(totals.reviewers),
                "simulated": sum(totals.reviewers.values()),
                "simulated_samples": totals.simulated_reviews,
            },
            "simulated": totals.simulated,
            "sha256": digests[0],
            "composition": composition.as_json(),
            "excluded": excluded,
            "about": {**_about(row, composition, read, counted, filtered, canary), **probed},
            "canary": canary,
            "held_out_count": totals.held_out,
            "held_out_sha256": digests[1],
        }
        if keep(row, read=totals.samples):
            _store(row, latest, chosen, spool, fields)


def _read(row: Freeze, samples: Iterable[content.FrozenSample], total: int, spool: Spool) -> _Read | None:
    """Spool the samples and count them; None if another worker has taken over."""
    totals = content.ReleaseTotals()
    labelled: list[ProbeCase] = []
    reviewed: dict[str, list[tuple[str, int, int]]] = {split: [] for split in ReleasedSample.Split.values}
    for entry in samples:
        spool.add(entry)
        totals.add(entry)
        if entry.sample["review"]["physicians"]:  # unreviewed samples have no answers
            sample = (entry.sample["sample_id"], entry.sample["version"], entry.row["case_id"])
            reviewed[entry.split].append(sample)
        if (case := content.labelled_case(row.benchmark, entry, total)) is not None:
            labelled.append(case)
        if totals.samples % RENEW_EVERY == 0 and not keep(row, read=totals.samples):
            return None
    return _Read(totals, labelled, reviewed)


def _about(
    row: Freeze,
    composition: Composition,
    read: _Read,
    counted: Tally,
    filtered: FilteredRelease | None,
    canary: str,
) -> dict[str, Any]:
    """What the release's page and card say of it."""
    cases, agreement = [], {}
    for split, samples in read.reviewed.items():
        cases += [case for _key, _version, case in samples]
        agreement[split] = ratings.agreement(samples, canary)
    easy, filtered_about = 0, {}
    if filtered:
        easy = int(filtered.about["samples"])
        filtered_about = {FILTER: filtered.about}
    return {
        "card": row.card,
        **read.totals.strata(row.benchmark),
        "funnel": funnel.to_json(funnel_of(row.benchmark, composition, read.totals.samples, easy)),
        "counts": _counts_without(counted.counts, filtered),
        **filtered_about,
        **card_facts(row.benchmark, read.totals, cases),
        "agreement": agreement,
    }


def _counts_without(
    counts: Mapping[str, Mapping[str, int]], filtered: FilteredRelease | None
) -> Mapping[str, Mapping[str, int]]:
    """The counts of samples by their properties, without those that the filter left out."""
    if filtered is None:
        return counts
    rest: dict[str, dict[str, int]] = {}
    for name, values in counts.items():
        removed: Mapping[str, int] = filtered.removed.get(name, {})
        rest[name] = {value: n - removed.get(value, 0) for value, n in values.items()}
    return rest


def _probed(row: Freeze, labelled: list[ProbeCase]) -> dict[str, Any]:
    """What probes tell of the answers, if the benchmark labels any. Raises ProbingLost."""
    if not has_labelled_answers(row.benchmark):
        return {}
    report = probes_services.report_on(labelled, probes_services.renewing(row))
    return {STORED: to_json(report)}


def _card_of(release: Release | None) -> dict[str, str]:
    if release is not None:
        return dict(release.about.get("card", {}))
    return {}


@recording_events()
def _store(row: Freeze, latest: Release | None, chosen: content.Chosen, spool: Spool, fields: dict[str, Any]) -> None:
    owned = Freeze.objects.select_for_update().filter(pk=row.pk, token=row.token, status=Work.Status.RUNNING)
    if not owned.exists():
        return
    # A sample may have been withdrawn after it was read. Locked, because references are checked
    # only at the commit: until then, `reopening` would take it for a sample that is in no release.
    approved = SampleVersion.objects.filter(status=SampleVersion.Status.APPROVED).order_by("sample_id")
    locked = approved.select_for_update(no_key=True).values_list("pk", flat=True)
    for chunk in content.chunks(chosen):
        still_approved = list(locked.filter(pk__in=chunk["version"].tolist()))  # a count would lock nothing
        if len(still_approved) < len(chunk):
            finish(row, Work.Status.QUEUED)  # the sweeper restarts it
            return
    version = 1
    if latest:
        version = latest.version + 1
    release = Release.objects.create(
        name=row.name,
        version=version,
        benchmark=row.benchmark,
        created_by=row.created_by,
        created_at=timezone.now(),
        trail_end=verification.last_sequence(),
        **fields,
    )
    spool.store(release)
    integrity.record_digests(release)
    analyze_tables(ReleasedSample, ReleasedRubric, Facet)
    finish(row, Work.Status.DONE, release=release, finished_at=timezone.now())
    path = reverse("generation:release", args=[release.name, release.version])
    notifications.tell(Occasion.FROZEN, [row.created_by], release=str(release), path=path)
