"""What becomes known of a sample after its approval: reports, and the withdrawals that follow.

Frozen releases stay unchanged.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from generation import errors
from generation.common.reasons import checked_reason
from generation.models import Erratum, Release, ReleasedSample, Sample, SampleVersion
from generation.samples.queries import visible_to
from review.access import visibility
from review.audit import acts
from review.audit.trail import recording_events
from review.models import Case, Review, User
from review.rules.permissions import Can, allowed, require
from review.rules.state_machine import FINAL, State
from review.rules.text import whole_number

Kind = Erratum.Kind
REPORTS_SHOWN = 10  # on the overview


def may_report(user: User, sample: Sample) -> bool:
    """Whether `user` may read this sample, and so report it.

    Producers may at once, readers of results once it is released, and a physician who reviewed its
    case once the case is closed.
    """
    if allowed(user, Can.PRODUCE):
        return True
    if allowed(user, Can.READ_RESULTS):
        return visible_to(user, ReleasedSample.objects.filter(version__sample=sample)).exists()
    if not allowed(user, Can.REVIEW):
        return False
    closed = SampleVersion.objects.filter(sample=sample, case__state__in=sorted(FINAL)).values("case")
    return visibility.counted_reviews().filter(case__in=closed, physician=user).exists()


def report(sample_id: int, *, actor: User, reason: str) -> Erratum:
    """Report an approved sample as wrong: it stays out of releases until an admin decides.

    Raises UnknownSample if there is none that `actor` may read; NotApproved, AlreadyReported,
    ReasonMissing, TooLong.
    """
    with recording_events():
        sample = _lock_approved(sample_id, reader=actor)
        if _is_reported(sample):
            raise errors.AlreadyReported
        return _record_erratum(sample, Kind.REPORTED, actor, reason)


def dismiss(sample_id: int, *, actor: User, reason: str) -> Erratum:
    """Dismiss the report of a sample: the sample is right.

    Raises NotReported, ReasonMissing, TooLong.
    """
    require(actor, Can.PRODUCE)
    with recording_events():
        sample = _lock_approved(sample_id)
        if not _is_reported(sample):
            raise errors.NotReported
        return _record_erratum(sample, Kind.DISMISSED, actor, reason)


def withdraw(sample_id: int, *, actor: User | None, reason: str) -> Erratum:
    """Withdraw an approved sample from all later releases, for good.

    `actor`: None for the operator. Raises NotApproved, ReasonMissing, TooLong.
    """
    if actor is not None:
        require(actor, Can.PRODUCE)
    with recording_events():
        sample = _lock_approved(sample_id)
        erratum = _record_erratum(sample, Kind.WITHDRAWN, actor, reason)
        versions = SampleVersion.objects.filter(sample=sample, status=SampleVersion.Status.APPROVED)
        versions.update(status=SampleVersion.Status.WITHDRAWN)
        Sample.objects.filter(pk=sample.pk).update(status=Sample.Status.WITHDRAWN)
        return erratum


def _lock_approved(sample_id: int, reader: User | None = None) -> Sample:
    """Lock the approved sample.

    Raises UnknownSample if there is none that `reader` may read; NotApproved.
    """
    sample = Sample.objects.select_for_update(no_key=True).filter(pk=sample_id).first()
    if sample is None or (reader is not None and not may_report(reader, sample)):
        raise errors.UnknownSample
    if sample.status != Sample.Status.APPROVED:
        raise errors.NotApproved
    return sample


def _is_reported(sample: Sample) -> bool:
    """Whether a report of this sample waits for an admin."""
    return _undecided().filter(sample=sample).exists()


def _record_erratum(sample: Sample, kind: Kind, actor: User | None, reason: str) -> Erratum:
    reason = checked_reason(reason)
    acts.record_act(acts.Kind.ERRATUM, str(kind), sample.key, actor)
    return Erratum.objects.create(sample=sample, kind=kind, reason=reason, actor=actor, at=timezone.now())


def withdrawn(release: Release, as_of: datetime | None = None) -> QuerySet[Erratum]:
    """The withdrawals of samples of a release; `as_of`: those known by then, by default all."""
    of_release = SampleVersion.objects.filter(released__release=release).values("sample")
    rows = Erratum.objects.filter(kind=Kind.WITHDRAWN, sample__in=of_release).order_by("pk")
    if as_of is None:
        return rows
    return rows.filter(at__lte=as_of)


def standing(release: Release) -> QuerySet[ReleasedSample]:
    """The samples of a release that are not withdrawn."""
    return release.samples.exclude(version__sample__in=withdrawn(release).values("sample"))


def withdrawn_by_release(releases: Collection[int]) -> dict[int, int]:
    """Release -> how many of its samples are withdrawn, of those with any."""
    rows = Erratum.objects.filter(kind=Kind.WITHDRAWN, sample__versions__released__release__in=releases).order_by()
    counts = rows.values_list("sample__versions__released__release").annotate(n=Count("sample", distinct=True))
    return dict(counts)


def reviewed_sample_id(physician: User, review_id: int) -> int:
    """The id of the approved sample behind a physician's own review, if they may know the outcome.

    Raises NotAssigned if the review is not theirs, and UnknownSample.
    """
    review = visibility.own_review(physician, review_id)
    version = reportable_version(physician, review)
    if version is None:
        raise errors.UnknownSample
    return version.sample_id


def reportable_version(physician: User, review: Review) -> SampleVersion | None:
    """The approved version behind a physician's review.

    None as long as they may not know the outcome, and so always for copies of a case.
    """
    if visibility.outcome_shown_to(physician, review) != State.APPROVED:
        return None
    return SampleVersion.objects.filter(case=review.case_id, status=SampleVersion.Status.APPROVED).first()


def own_review_context(review: Review) -> dict[str, object]:
    """Context for the page of an own review: whether its sample can be reported, or has been."""
    version = reportable_version(review.physician, review)
    reported = version is not None and _is_reported(version.sample)
    return {"reportable": version is not None and not reported, "reported": reported}


def case_context(case: Case) -> dict[str, object]:
    """Context for the page of a case: the sample behind it, which can be withdrawn if approved."""
    return {"made": SampleVersion.objects.filter(case=case).select_related("sample").first()}


def undecided_reports(_shown: object) -> dict[str, object]:
    """Context for the overview: the reports that wait for an admin, oldest first."""
    waiting = _undecided().select_related("sample", "actor")
    return {"reports": waiting.order_by("pk")[:REPORTS_SHOWN]}


def _undecided() -> QuerySet[Erratum]:
    """The reports of approved samples that are neither dismissed nor followed by a withdrawal.

    Of those that are reviewed again, physicians decide.
    """
    later = Erratum.objects.filter(sample=OuterRef("sample"), pk__gt=OuterRef("pk"))
    return Erratum.objects.filter(~Exists(later), kind=Kind.REPORTED, sample__status=Sample.Status.APPROVED)


def undecided_count(release: Release) -> int:
    """How many samples of a release are reported as wrong, without a decision: they count."""
    of_release = SampleVersion.objects.filter(released__release=release).values("sample")
    return _undecided().filter(sample__in=of_release).count()


def sample_id_of(key: str) -> int:
    """The id of a sample given by its id or its key. Raises UnknownSample."""
    number = key.rpartition("-")[2]
    sample = Sample.objects.filter(pk=whole_number(number) or 0).first()
    if sample is None or key not in (number, str(sample.pk), sample.key):
        raise errors.UnknownSample
    return sample.pk


def history(sample: Sample) -> QuerySet[Erratum]:
    """All errata of a sample, oldest first."""
    return Erratum.objects.filter(sample=sample).select_related("actor").order_by("pk")


def errata_of(release: Release, reader: object) -> Iterable[Erratum]:
    """The errata in force for those of a release's samples that `reader` may see, in their order.

    Without dismissed reports. `reader`: None for what is published.
    """
    latest = Erratum.objects.filter(sample=OuterRef("sample")).order_by("-pk").values("pk")[:1]
    samples = visible_to(reader, ReleasedSample.objects.filter(release=release)).values("version__sample")
    rows = Erratum.objects.filter(~Q(kind=Kind.DISMISSED), pk=Subquery(latest), sample__in=samples)
    return rows.select_related("sample", "actor").order_by("sample_id")
