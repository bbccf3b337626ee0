"""Next versions: of a rejected one, and by hand of a failed one or of a discarded sample."""

from collections import Counter

from django.utils.translation import gettext

from generation import errors
from generation.jobs import life_cycle
from generation.models import Draft, Job, Sample, SampleVersion
from generation.recipes import registry
from generation.recipes.recipe import Term
from generation.samples.queries import terms
from review.audit.trail import recording_events


def queue_next(version: SampleVersion) -> bool:
    """Queue the next version of a rejected one; return False if there may be none."""
    sample = version.sample
    if sample.arm != Sample.Arm.TRAP:
        return False
    job = life_cycle.lock_job(sample.batch_id)
    most = sample.batch.settings.get("versions")  # a setting of recipes that have it
    if not isinstance(most, int):
        most = registry.recipe(sample.benchmark).max_versions
    if version.number >= most:
        return False
    if job.status == Job.Status.CANCELLED:
        return False
    life_cycle.settle(job, is_open=True)
    step, data = registry.recipe(sample.benchmark).restart_point(version.draft.data)
    Draft.objects.create(
        batch_id=sample.batch_id,
        record_id=sample.record_id,
        sample=sample,
        version=version.number + 1,
        preferred=version.draft.preferred,
        endpoint_id=version.draft.endpoint_id,
        step=step,
        data=data,
    )
    return True


def failed_version(sample: Sample) -> Draft | None:
    """The draft of the next version of a sample, if it failed."""
    if sample.status != Sample.Status.REGENERATING:
        return None
    return Draft.objects.filter(sample=sample, status=Draft.Status.FAILED).order_by("-version", "-pk").first()


def other_traps(sample: Sample) -> list[Term]:
    """The traps that no version of a sample carries or was meant to, the rarest in its batch first.

    Empty if the samples of the benchmark carry none.
    """
    used: set[str] = set()
    carries_any = False
    for traps, preferred in SampleVersion.objects.filter(sample=sample).values_list("traps", "draft__preferred"):
        used.update(traps, preferred)
        carries_any = carries_any or bool(traps)
    if not carries_any:
        return []
    alive = [SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]
    rows = SampleVersion.objects.filter(sample__batch=sample.batch_id, status__in=alive).values_list("traps", flat=True)
    carried: Counter[str] = Counter()
    for traps in rows:
        carried.update(traps)
    offered = [term for term in terms(sample.benchmark) if term.parent and term.code not in used]
    return sorted(offered, key=lambda term: carried[term.code])


@recording_events()
def retry_version(sample_id: int) -> Draft:
    """Queue a failed next version of a sample again.

    Raises NoFailedVersion, JobOver (its batch was cancelled).
    """
    job, sample = _locked(sample_id)
    row = failed_version(sample)
    if row is None:
        raise errors.NoFailedVersion
    Draft.objects.filter(pk=row.pk).update(status=Draft.Status.QUEUED, error="", detail="", tries=0)
    Draft.objects.filter(pk=row.pk, round__status=Draft.Status.FAILED).update(round=None)
    life_cycle.settle(job, is_open=True)
    life_cycle.record(job, "retried", sample=sample.key, version=row.version)
    life_cycle.wake_workers()
    row.refresh_from_db()
    return row


@recording_events()
def draw_again(sample_id: int, trap: str = "") -> Draft:
    """Generate another version of a discarded sample from its record, with another trap.

    `trap`: the code of the trap to prefer; empty: the rarest one in its batch that no version had.

    Raises NotDiscarded, TrapUsed (the trap is unknown, or a version had it), JobOver.
    """
    job, sample = _locked(sample_id)
    if sample.status != Sample.Status.DISCARDED or sample.arm != Sample.Arm.TRAP:
        raise errors.NotDiscarded
    codes = [term.code for term in other_traps(sample)]
    if trap and trap not in codes:
        raise errors.TrapUsed(f"{trap!r}; {gettext('free:')} {', '.join(codes) or '-'}")
    number, preferred = 0, codes[:1]
    last = Draft.objects.filter(sample=sample).order_by("-version", "-pk").first()
    if last:
        number = last.version
    if trap:
        preferred = [trap]
    newest = SampleVersion.objects.filter(sample=sample).select_related("draft").latest("number")
    row = Draft.objects.create(
        batch_id=sample.batch_id,
        record_id=sample.record_id,
        sample=sample,
        version=max(newest.number, number) + 1,
        preferred=preferred,
        endpoint_id=newest.draft.endpoint_id,
    )
    Sample.objects.filter(pk=sample.pk).update(status=Sample.Status.REGENERATING)
    life_cycle.settle(job, is_open=True)
    life_cycle.record(job, "drawn again", sample=sample.key, version=row.version, traps=row.preferred)
    life_cycle.wake_workers()
    return row


def _locked(sample_id: int) -> tuple[Job, Sample]:
    """The sample and its batch, locked. Raises UnknownSample, JobOver."""
    found = Sample.objects.filter(pk=sample_id).values_list("batch", flat=True).first()
    if found is None:
        raise errors.UnknownSample
    job = life_cycle.lock_job(found)
    if job.status == Job.Status.CANCELLED:
        raise errors.JobOver
    return job, Sample.objects.select_for_update(no_key=True).get(pk=sample_id)
