"""Whether releases still are what was frozen: their rows against the event of the freeze.

Triggers forbid changes of a release; who may drop them can change its rows and the checksums beside
them. The event of the freeze holds the checksums too, and is part of the chain of the audit trail.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from generation import errors
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample, Rubric, Sample
from generation.releases import queries
from generation.releases.exporters.base import canonical
from generation.releases.exporters.jsonl import JsonLinesExporter
from review.audit import acts
from review.audit.chain_entries import NOT_OURS
from review.audit.trail import PERSON_EVENTS
from review.audit.verification import AuditFault, FaultCode
from review.models import PersonEvent
from review.rules.text import whole_number

FROZEN = "frozen"
REST = "rest_sha256"  # its key in the event; events of older freezes do not have it
# Named, because a column that is added later is in no digest of an earlier freeze.
IN_REST = (
    "name", "version", "benchmark", "samples_count", "rubrics_count", "counts", "generators", "provenance", "grounds",
    "reviewers", "sources", "simulated", "trail_end", "composition", "excluded", "about", "canary", "held_out_count",
)  # fmt: skip
NO_LINES = sha256().hexdigest()
COLUMNS = {ReleasedSample.Split.PUBLIC: "sha256", ReleasedSample.Split.HELD_OUT: "held_out_sha256"}


def record_digests(release: Release) -> None:
    """Record the checksums of a new release, within `trail.recording_events`."""
    digests = {column: getattr(release, column) for column in COLUMNS.values()}
    acts.record_act(
        acts.Kind.FREEZE,
        FROZEN,
        release.reference,
        release.created_by,
        benchmark=release.benchmark,
        samples=release.samples_count,
        **digests,
        **{REST: _rest_digest(release)},
    )


def check_release(release: Release) -> None:
    """Check the rows of a release against the event of its freeze, in one streamed pass.

    Releases that were frozen before the event held checksums are not covered, and pass.

    Raises ReleaseAltered.
    """
    event = _events().filter(data__name=release.reference).first()
    if event is not None and not _is_intact(release, event):
        raise errors.ReleaseAltered(release.reference)


def faults(heartbeat: Callable[[], None]) -> Iterator[AuditFault]:
    """A fault for each release that differs from the event of its freeze, or is gone."""
    for event in _events():
        reference = str(event.data.get("name"))
        name, _, version = reference.rpartition("@")
        release = Release.objects.filter(name=name, version=whole_number(version, 9) or 0).first()
        if release is None or not _is_intact(release, event):
            place = event.sequence
            yield AuditFault(FaultCode.RELEASE, PERSON_EVENTS, place, place, id=event.pk, name=reference)
        heartbeat()


def not_covered() -> list[str]:
    """The releases that were frozen before the event of a freeze held checksums."""
    recorded = list(_events().values_list("data__name", flat=True))
    return [release.reference for release in Release.objects.order_by("pk") if release.reference not in recorded]


def _events() -> QuerySet[PersonEvent]:
    """The events of finished freezes. Of a release, the oldest counts."""
    return PersonEvent.objects.filter(kind=acts.Kind.FREEZE, data__what=FROZEN).order_by("sequence")


def _is_intact(release: Release, event: PersonEvent) -> bool:
    try:
        return _has_digests(release, event.data)
    except NOT_OURS:  # values that no freeze stored
        return False


def _has_digests(release: Release, recorded: Mapping[str, Any]) -> bool:
    for split, column in COLUMNS.items():
        digest = recorded[column]
        if getattr(release, column) != digest or _digest(release, split) != (digest or NO_LINES):
            return False
    return _has_links(release) and (REST not in recorded or _rest_digest(release) == recorded[REST])


def _has_links(release: Release) -> bool:
    """Whether versions, arms and polarities, by which numbers are counted, are the frozen ones."""
    frozen = ("key", "task", "exported__version", "exported__arm")
    linked_to = ("version__number", "version__sample_id", "version__sample__arm")
    for chunk in queries.in_order(release, "", *frozen, *linked_to):
        for key, task, number, arm, linked_number, sample, linked_arm in chunk:
            linked = (Sample.key_of(release.benchmark, task, sample), linked_number, linked_arm)
            if linked != (key, number, arm or linked_arm):  # older releases have no arms
                return False
    own = Rubric.objects.filter(version=OuterRef("sample__version"), key=OuterRef("key"))
    changed = ReleasedRubric.objects.filter(Exists(own.exclude(polarity=OuterRef("polarity"))), sample__release=release)
    return not changed.exclude(polarity="").exists()


def _rest_digest(release: Release) -> str:
    """The SHA-256 of what is not in a sample's line: data card, counts, places, facets."""
    described = Release.objects.filter(pk=release.pk).values(*IN_REST).get()
    digest = sha256(canonical(_plain(described)).encode())
    for chunk in queries.in_order(release, "", "pk", "position", "key", "task", "split"):
        facets = defaultdict(list)
        rows = Facet.objects.filter(rubric__sample__in=[pk for pk, *_place in chunk])
        for sample, *facet in rows.values_list("rubric__sample", "rubric__key", "name", "value"):
            facets[sample].append(facet)
        for pk, *place in chunk:
            digest.update(canonical([*place, sorted(facets[pk])]).encode())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """JSON as every database returns it: one may store 2.0 as 2, and no -0.0."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _digest(release: Release, split: str) -> str:
    """The SHA-256 of one split's JSON Lines, of the rows as they are now."""
    lines, digest = JsonLinesExporter(), sha256()
    for sample in queries.exported_samples(release, split):
        digest.update(f"{lines.line(sample)}\n".encode())
    return digest.hexdigest()
