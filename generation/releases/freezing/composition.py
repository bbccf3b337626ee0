"""Selects a release's samples: which approved ones go in, are left out and why, are held out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
from django.db.models import Case, CharField, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.utils.translation import gettext_noop
from django.utils.translation import gettext_noop as _
from pydantic import Field

from generation import errors
from generation.common.components import components
from generation.jobs.settings import AskedAs, Settings
from generation.models import Erratum, Sample, SampleVersion, SourceRecord
from generation.recipes.configuration import configuration
from generation.releases.freezing import configured
from review.access.visibility import counted_reviews
from review.rules import limits
from review.rules.limits import MAX_ID
from review.rules.state_machine import Ground

Status = SampleVersion.Status
READ = 5_000  # versions in memory at a time
_RECORD = ("sample__record__source__name", "sample__record__external_id")
TRAP, CONTROL = "trap", "control"
FIELDS = {  # name in `where` -> column
    "source": "sample__record__source__name",
    "task": "sample__task",
    "language": "case__language",
    "specialty": "case__specialty",
}
CHOICES = {"reviewed": ("yes", "no", "any"), "simulated": ("yes", "no", "any")}
APPROVED_SINCE = "approved-since"
EASY = "easy-to-tell"
EXCLUSIONS = {  # why a sample is left out -> in words
    "in-review": gettext_noop("still in review"),
    "withdrawn": gettext_noop("withdrawn"),
    "reported": gettext_noop("reported, not yet decided"),
    APPROVED_SINCE: gettext_noop("approved after the freeze began"),
    "second-of-pair": gettext_noop("second sample of a compared record"),
    "partner": gettext_noop("its partner is left out"),
    "other-batch": gettext_noop("from another batch"),
    "too-long": gettext_noop("too long for the configuration"),
    "not-drawn": gettext_noop("not drawn: tasks are reduced to the same size"),
    "made-otherwise": gettext_noop("not made as the configuration requires"),
    "other-source": gettext_noop("from another source"),
    "other-task": gettext_noop("another task"),
    "other-language": gettext_noop("another language"),
    "other-specialty": gettext_noop("another specialty"),
    "control": gettext_noop("control sample"),
    EASY: gettext_noop("its words tell which answer is right"),
    "unreviewed": gettext_noop("not sampled for review"),
    "reviewed": gettext_noop("reviewed"),
    "simulated": gettext_noop("simulated"),
    "not-simulated": gettext_noop("not simulated"),
}
# A comparison has two samples of a record, alike by design: only the first one is released.
_SECOND_OF_A_PAIR = Q(
    Exists(
        SampleVersion.objects.filter(
            status=Status.APPROVED,
            sample__record=OuterRef("sample__record"),
            sample__batch__comparison=OuterRef("sample__batch__comparison"),
            sample__batch__arm="A",
        )
    ),
    sample__batch__arm="B",
)
_LATEST_ERRATUM = Subquery(
    Erratum.objects.filter(sample=OuterRef("sample")).order_by("-pk").values("kind")[:1], output_field=CharField()
)
_BY_A_SIMULATED_REVIEWER = Exists(counted_reviews().filter(case=OuterRef("case"), physician__simulated=True))


class Composition(Settings):
    """The requested composition of a release.

    `where`: field -> value, for the names in `FIELDS` and `CHOICES`. `held_out`: the share of
    source records to hold out, in whole clusters. `configuration`: the name of one that the
    benchmark offers. Raises WrongComposition.
    """

    batches: Annotated[Sequence[Annotated[int, Field(ge=1, le=MAX_ID)]], AskedAs(option="--batch")] = Field(
        (), title=_("Batches"), description="Numbers of batches; empty: all.", max_length=limits.ENTRIES
    )
    where: Mapping[str, Annotated[str, Field(max_length=200)]] = Field(
        default_factory=dict,
        title="Only samples with",
        description="`source`, `task`, `language`, `specialty`: a value. `reviewed`, `simulated`: `yes`, `no` or `any`.",
    )
    with_unreviewed: bool = Field(False, title=_("Include samples not sampled for review"))
    with_controls: bool = Field(False, title=_("Include control samples"))
    held_out: float = Field(
        0.0,
        title=_("Held-out share"),
        description=_("Share of source records (0 to 0.9) whose samples stay out of the public export."),
        ge=0,
        le=0.9,
    )
    configuration: Annotated[str, AskedAs(offered=True)] = Field(
        "", title=_("Configuration"), description="A configuration of the benchmark; empty: all samples.", max_length=40
    )
    harder: float = Field(
        0.0,
        title=_("Leave out the easiest"),
        description=_(
            "Share of source records (0 to 0.9) to leave out because the words of their answers tell right from wrong"
            " most clearly. Results are then biased and not comparable with an unfiltered release; the data card says so."
        ),
        ge=0,
        le=0.9,
    )
    seed: int = Field(
        0,
        title=_("Seed"),
        description=_(
            "The same seed holds out and draws the same records in every release. To hold out, 0 stands for the seed "
            "of the release before, or for one that nobody can guess."
        ),
        ge=0,
        le=2**53 - 1,
    )

    refusal = errors.WrongComposition

    def model_post_init(self, _context: Any) -> None:
        for name, value in self.where.items():
            if name not in FIELDS and name not in CHOICES:
                raise errors.WrongComposition(f"{name!r}; known: {', '.join([*FIELDS, *CHOICES])}")
            if name in CHOICES and value not in CHOICES[name]:
                raise errors.WrongComposition(f"{name}={value}; known: {', '.join(CHOICES[name])}")

    @property
    def reviewed(self) -> str:
        default = "yes"
        if self.with_unreviewed:
            default = "any"
        return self.where.get("reviewed", default)

    @property
    def simulated(self) -> str:
        """The filter on simulated samples; empty: all samples, if they are all of one kind."""
        return self.where.get("simulated", "")

    def as_json(self) -> dict[str, Any]:
        stored = {**self.model_dump(), "batches": list(self.batches)}
        for name in ("configuration", "harder"):  # absent, as before there were these
            if not stored[name]:
                del stored[name]
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Composition":
        return cls.model_construct(**{**stored, "batches": tuple(stored.get("batches", ()))})

    def holds_out(self, source: str, external_id: str) -> bool:
        """Whether this record is drawn to be held out: in every release with this seed and share.

        Decided by a digest and not by rank, so that no sample becomes public because another record
        was added.
        """
        digest = sha256(f"{self.seed}\n{source}\n{external_id}".encode()).digest()
        return int.from_bytes(digest[:8]) < self.held_out * 2**64


def versions_with_reason(benchmark: str, composition: Composition) -> QuerySet[SampleVersion]:
    """The current and withdrawn versions of a benchmark, with `reason`.

    It says why each is left out; '' if it goes in.
    """
    rows = _versions_with_own_reason(benchmark, composition)
    if not Sample.objects.filter(benchmark=benchmark).exclude(bound="").exists():
        return rows.annotate(reason=F("own_reason"))
    bound_together = {name: OuterRef(f"sample__{name}") for name in ("record", "batch", "bound")}
    partners = Sample.objects.filter(**bound_together).exclude(pk=OuterRef("sample"))
    accepted = _versions_with_own_reason(benchmark, composition).filter(Q(own_reason=""), sample=OuterRef("pk"))
    lacks_partner = ~Q(sample__bound="") & (~Exists(partners) | Exists(partners.filter(~Exists(accepted))))
    reasons = [When(~Q(own_reason=""), then=F("own_reason")), When(lacks_partner, then=Value("partner"))]
    return rows.annotate(reason=Case(*reasons, default=Value(""), output_field=CharField()))


def _versions_with_own_reason(benchmark: str, composition: Composition) -> QuerySet[SampleVersion]:
    """Versions with `own_reason`: why each is left out, whatever the samples it is bound to."""
    rows = SampleVersion.objects.filter(
        sample__benchmark=benchmark, status__in=[Status.APPROVED, Status.IN_REVIEW, Status.WITHDRAWN]
    ).annotate(
        arm=F("sample__arm"),
        erratum=_LATEST_ERRATUM,
        is_simulated=Case(When(Q(simulated=True) | _BY_A_SIMULATED_REVIEWER, then=Value("yes")), default=Value("no")),
    )
    reasons = [
        When(status=Status.IN_REVIEW, then=Value("in-review")),
        When(Q(status=Status.WITHDRAWN), then=Value("withdrawn")),
        When(erratum=Erratum.Kind.REPORTED, then=Value("reported")),
        When(_SECOND_OF_A_PAIR, then=Value("second-of-pair")),
    ]
    if composition.batches:
        reasons.append(When(~Q(sample__batch__in=composition.batches), then=Value("other-batch")))
    for name, column in FIELDS.items():  # a database may return the keys of JSON in another order
        if name in composition.where:
            reasons.append(When(~Q(**{column: composition.where[name]}), then=Value(f"other-{name}")))
    if not composition.with_controls:
        reasons.append(When(~Q(arm=TRAP), then=Value("control")))
    if composition.reviewed == "yes":
        reasons.append(When(case__ground=Ground.UNREVIEWED, then=Value("unreviewed")))
    if composition.reviewed == "no":
        reasons.append(When(~Q(case__ground=Ground.UNREVIEWED), then=Value("reviewed")))
    if composition.simulated == "yes":
        reasons.append(When(is_simulated="no", then=Value("not-simulated")))
    if composition.simulated == "no":
        reasons.append(When(is_simulated="yes", then=Value("simulated")))
    if (chosen_configuration := configuration(benchmark, composition.configuration)) is not None:
        reasons += [*configured.too_long(chosen_configuration), *configured.made_otherwise(chosen_configuration)]
    return rows.annotate(own_reason=Case(*reasons, default=Value(""), output_field=CharField()))


@dataclass(frozen=True, slots=True)
class Tally:
    """How many samples go in, by their properties, and how many are left out, by reason."""

    samples: int
    excluded: Mapping[str, int]
    grounds: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]  # source, task, language, arm, simulated -> value -> samples


def tally(benchmark: str, composition: Composition) -> Tally:
    """Count the samples in the database. Raises NothingApproved, MixedSimulated."""
    columns = {"source": FIELDS["source"], "task": FIELDS["task"], "language": FIELDS["language"]}
    columns |= {"arm": "arm", "simulated": "is_simulated", "ground": "case__ground"}
    group_of, record_draw = _draw(benchmark, composition)
    versions: Any = versions_with_reason(benchmark, composition).order_by()
    rows: Iterable[tuple[Any, ...]] = versions.values_list("reason", *columns.values()).annotate(n=Count("pk"))
    if record_draw is not None:  # the database cannot tell whether a sample is drawn
        rows = _drawn_rows(versions.values_list("reason", group_of, *_RECORD, *columns.values()), record_draw)
    excluded: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {name: Counter() for name in columns}
    samples = 0
    for reason, *values, n in rows:
        if reason:
            excluded[reason] += n
            continue
        samples += n
        for name, value in zip(columns, values, strict=True):
            counts[name][value or ""] += n
    if not samples:
        excluded.pop("in-review", None)
        if excluded:
            raise errors.NothingApproved(f"{benchmark} ({_listed(excluded)})")
        raise errors.NothingApproved(benchmark)
    if len(counts["simulated"]) > 1 and not composition.simulated:
        raise errors.MixedSimulated(_listed(counts["simulated"]))
    grounds = counts.pop("ground")
    return Tally(
        samples=samples,
        excluded=dict(sorted(excluded.items())),
        grounds=dict(sorted(grounds.items())),
        counts={name: dict(sorted(values.items())) for name, values in counts.items()},
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))


def _drawn_rows(
    versions: QuerySet[Any, tuple[Any, ...]], record_draw: configured.RecordDraw
) -> Iterator[tuple[Any, ...]]:
    """(reason, values, 1) of each version; `versions`: reason, group, source, record id, values."""
    for reason, group, source, external_id, *values in versions.iterator(chunk_size=READ):
        if not reason and not record_draw.includes(group, source, external_id):
            reason = configured.NOT_DRAWN
        yield reason, *values, 1


def _draw(benchmark: str, composition: Composition) -> tuple[Any, configured.RecordDraw | None]:
    """The group of a version as an expression, and the records drawn by a configuration."""
    chosen = configuration(benchmark, composition.configuration)
    if chosen is None or not chosen.balanced:
        return Value(""), None
    group = configured.group_of(chosen)
    rows = versions_with_reason(benchmark, composition).filter(Q(reason="")).order_by()
    rows_of = rows.values_list(group, *_RECORD).iterator(chunk_size=READ)
    return group, configured.draw(chosen, composition.seed, rows_of)


def choices(benchmark: str, composition: Composition) -> Iterator[tuple[int, bool]]:
    """The versions that go in, in order, each with whether it is held out."""
    rows = versions_with_reason(benchmark, composition).filter(Q(reason="")).order_by("sample_id")
    group_of, record_draw = _draw(benchmark, composition)
    in_clusters = _held_out_clusters(benchmark, composition)
    columns = ("pk", "sample__record", group_of, *_RECORD)
    for pk, record, group, source, external_id in rows.values_list(*columns).iterator(chunk_size=READ):
        if record_draw is not None and not record_draw.includes(group, source, external_id):
            continue
        if record in in_clusters:
            yield pk, in_clusters[record]
        else:
            yield pk, composition.holds_out(source, external_id)


def _held_out_clusters(benchmark: str, composition: Composition) -> dict[int, bool]:
    """Record that may share something with others -> whether its cluster is held out.

    Records that share an image, a document or a patient, directly or through others, are held out
    together: a model that has seen one of them has seen a part of the others. The first that was
    imported decides, of all records of the sources and not only of approved ones: so no sample
    becomes public because another one was approved, or a record added that joins no two clusters.
    """
    if not composition.held_out:
        return {}
    sources = Sample.objects.filter(benchmark=benchmark).order_by().values("record__source").distinct()
    sharing = SourceRecord.objects.filter(source__in=sources).exclude(shares="").order_by("pk")
    records: list[int] = []
    drawn: list[bool] = []
    edges: list[tuple[int, int]] = []
    first_with: dict[str, int] = {}
    rows = sharing.values_list("pk", "source__name", "external_id", "shares")
    for place, (pk, source, external_id, shares) in enumerate(rows.iterator(chunk_size=READ)):
        records.append(pk)
        drawn.append(composition.holds_out(source, external_id))
        for thing in shares.split():
            edges.append((place, first_with.setdefault(thing, place)))
    if not records:
        return {}
    cluster = components(np.array(edges), len(records))
    _clusters, first_places = np.unique(cluster, return_index=True)
    held_out = np.array(drawn)[first_places][cluster]
    return dict(zip(records, held_out.tolist(), strict=True))
