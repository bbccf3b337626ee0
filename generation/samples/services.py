"""Makes sample versions with their cases, and stores terms of the taxonomy."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import F
from django.utils import timezone

from generation.endpoints import queries as endpoints_queries
from generation.models import Batch, BatchRole, Draft, ReviewStratum, Rubric, Sample, SampleVersion, TaxonomyTerm
from generation.recipes import registry
from generation.recipes.recipe import NewSample
from generation.samples import merge_trail
from review.audit.trail import record_person, recording_events
from review.cases import services as cases_services
from review.models import Case, PersonEvent, User
from review.rules import limits
from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import Can, require
from review.rules.state_machine import State
from review.rules.text import one_line


def save_term(term: TaxonomyTerm, *, actor: User) -> None:
    """Add or change a taxonomy term of a benchmark, and record the event. Raises NotAllowed."""
    require(actor, Can.PRODUCE)
    with recording_events():
        term.save()
        values = {name: getattr(term, name) for name in ("benchmark", "code", "parent", "label", "definition")}
        record_person(actor, PersonEvent.Kind.TERM, actor, **values)


def make_version(
    row: Draft, batch: Batch, new_sample: NewSample, *, arm: Sample.Arm = Sample.Arm.TRAP
) -> SampleVersion:
    """`make_versions` for one."""
    [version] = make_versions(batch, [(row, new_sample)], arm=arm)
    return version


def make_versions(
    batch: Batch, made: Sequence[tuple[Draft, NewSample]], *, arm: Sample.Arm = Sample.Arm.TRAP
) -> list[SampleVersion]:
    """Store the samples of drafts as versions and open their cases, in the caller's transaction.

    A case in an unknown language waits for an admin; the next version keeps the language that an
    admin set. A version that nobody is to review is approved at once.
    """
    now = timezone.now()
    simulated = endpoints_queries.endpoints_of(batch).filter(simulated=True).exists()
    generator = generator_of(batch)
    earlier = SampleVersion.objects.filter(sample__in=[row.sample_id for row, _new in made if row.sample_id])
    previous = {version.sample_id: version for version in earlier.select_related("case").order_by("number")}
    rows = [(row, _completed(new, batch, previous.get(row.sample_id or 0))) for row, new in made]
    samples = _stored_samples(batch, rows, arm, now)
    specs = []
    for (row, new), sample in zip(rows, samples, strict=True):
        spec = registry.case_spec(batch.benchmark, new, sample.key, row.version)
        asked_for: tuple[str, ...] = ()
        if before := previous.get(sample.pk):
            asked_for = tuple(before.reasons)
        specs.append(replace(spec, asked_for=asked_for, simulated=simulated))
    cases = cases_services.open_cases(specs)
    versions = []
    for (row, new), sample, case in zip(rows, samples, cases, strict=True):
        if row.sample is None:
            merge_trail.record_earlier_decisions(row, case)
        versions.append(
            SampleVersion(
                sample=sample,
                number=row.version,
                draft=row,
                case=case,
                title=one_line(new.title, limits.TITLE),
                content=dict(new.content),
                status=_first_status(case),
                simulated=simulated,
                prompt=new.prompt[:100],
                generator=generator,
                traps=_traps(new),
                provenance=dict(new.provenance),
                created_at=now,
            )
        )
    versions = SampleVersion.objects.bulk_create(versions)
    _store_rubrics(versions, rows)
    _follow_versions(versions)
    return versions


def _stored_samples(
    batch: Batch, rows: Sequence[tuple[Draft, NewSample]], arm: Sample.Arm, now: datetime
) -> list[Sample]:
    """The sample of each draft: its own, if it is made anew, else one that is stored now."""
    new_samples = []
    for row, new in rows:
        if row.sample is None:
            new_sample = Sample(
                benchmark=batch.benchmark,
                task=new.task,
                batch=batch,
                record_id=row.record_id,
                arm=arm,
                bound=new.bound,
                created_at=now,
            )
            new_samples.append(new_sample)
    created = iter(Sample.objects.bulk_create(new_samples))
    return [row.sample or next(created) for row, _new in rows]


def _first_status(case: Case) -> SampleVersion.Status:
    if case.state == State.APPROVED:
        return SampleVersion.Status.APPROVED
    return SampleVersion.Status.IN_REVIEW


def _traps(new: NewSample) -> list[str]:
    """The traps of all rubrics, each once, in their order."""
    traps: dict[str, None] = {}
    for rubric in new.rubrics:
        traps |= dict.fromkeys(rubric.traps)
    return list(traps)


def _store_rubrics(versions: Sequence[SampleVersion], rows: Sequence[tuple[Draft, NewSample]]) -> None:
    rubrics = []
    for version, (_row, new) in zip(versions, rows, strict=True):
        for rubric in new.rubrics:
            rubrics.append(
                Rubric(
                    version=version,
                    key=rubric.key,
                    criterion=rubric.criterion,
                    polarity=rubric.polarity,
                    traps=list(rubric.traps),
                )
            )
    Rubric.objects.bulk_create(rubrics)


def _follow_versions(versions: Sequence[SampleVersion]) -> None:
    """Give each sample the status of its new version."""
    for status, sample_status in (
        (SampleVersion.Status.APPROVED, Sample.Status.APPROVED),
        (SampleVersion.Status.IN_REVIEW, Sample.Status.IN_REVIEW),
    ):
        changed = [version.sample_id for version in versions if version.status == status]
        Sample.objects.filter(pk__in=changed).exclude(status=sample_status).update(status=sample_status)


def _completed(new: NewSample, batch: Batch, previous: SampleVersion | None) -> NewSample:
    """A new sample with the decision on its review, and with a language."""
    if previous:
        language = previous.case.language
    else:
        language = new.language
    return replace(_decide_review(new, batch, previous), language=language or UNDETERMINED)


def _decide_review(new_sample: NewSample, batch: Batch, previous: SampleVersion | None) -> NewSample:
    """Decide whether physicians review the sample, if they review a share.

    A later version repeats the first decision. Counts the sample in its stratum, within the
    caller's transaction.
    """
    share = new_sample.review_share
    if share is None:
        return new_sample
    if previous is not None:
        review = str(previous.provenance.get("review", "sampled"))
    else:
        name = share.stratum[:200]
        ReviewStratum.objects.bulk_create([ReviewStratum(batch=batch, name=name)], ignore_conflicts=True)
        stratum = ReviewStratum.objects.select_for_update().get(batch=batch, name=name)
        review = "not sampled"
        if share.includes(stratum.samples):
            review = "sampled"
        ReviewStratum.objects.filter(pk=stratum.pk).update(samples=F("samples") + 1)
    return replace(new_sample, provenance={**new_sample.provenance, "review": review})


def make_control(row: Draft, batch: Batch, control: NewSample, arm: Sample.Arm) -> SampleVersion:
    """Make the control beside a sample, or its rewording, with a finished draft of its own.

    If it is rejected, it is not regenerated.
    """
    draft = Draft.objects.create(
        batch=batch, record_id=row.record_id, parent=row, step=row.step, status=Draft.Status.DONE
    )
    return make_version(draft, batch, control, arm=arm)


def generator_of(batch: Batch) -> str:
    """The name of the endpoint that writes the samples; empty if these records need none."""
    roles = registry.recipe(batch.benchmark).roles
    if roles:
        bound = BatchRole.objects.filter(batch=batch, role=roles[0].name)
    else:
        bound = BatchRole.objects.none()
    return bound.values_list("endpoint__name", flat=True).first() or ""
