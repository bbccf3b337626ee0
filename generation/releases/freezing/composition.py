"""What goes into a release: which approved samples, which are left out and why, and which are held out."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, overload

from django.db.models import Case, CharField, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When

from generation import errors
from generation.models import Erratum, ReleasedSample, Sample, SampleVersion
from generation.recipes.configuration import Configuration, configuration
from generation.releases.freezing import configured
from review.access.visibility import counted_reviews
from review.rules.state_machine import Ground

Status = SampleVersion.Status
_RECORD = ("sample__record__source__name", "sample__record__external_id")
TRAP, CONTROL = "trap", "control"
FIELDS = {  # what `where` may name -> how it is read
    "source": "sample__record__source__name",
    "task": "sample__task",
    "language": "case__language",
    "specialty": "case__specialty",
}
CHOICES = {"reviewed": ("yes", "no", "any"), "simulated": ("yes", "no", "any")}
# Of a comparison's two samples of one record only the first is released: they are alike by design.
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


@dataclass(frozen=True, slots=True)
class Composition:
    """What was asked for. `where`: field -> value, of `FIELDS` and `CHOICES`. `held_out`: the share of source records.
    `configuration`: the name of one that the benchmark offers.

    Raises WrongComposition.
    """

    batches: tuple[int, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    with_controls: bool = False
    with_unreviewed: bool = False
    held_out: float = 0.0
    seed: int = 0
    configuration: str = ""

    def __post_init__(self) -> None:
        for name, value in self.where.items():
            if name not in FIELDS and name not in CHOICES:
                raise errors.WrongComposition(f"{name!r}; known: {', '.join([*FIELDS, *CHOICES])}")
            if name in CHOICES and value not in CHOICES[name]:
                raise errors.WrongComposition(f"{name}={value}; known: {', '.join(CHOICES[name])}")
        if not 0 <= self.held_out < 1:
            raise errors.WrongComposition(f"held out: {self.held_out}; it must be at least 0 and below 1")

    @property
    def reviewed(self) -> str:
        return self.where.get("reviewed", "any" if self.with_unreviewed else "yes")

    @property
    def simulated(self) -> str:
        """Empty: all that there are, as long as they are of one kind."""
        return self.where.get("simulated", "")

    def as_json(self) -> dict[str, Any]:
        return {
            "batches": list(self.batches),
            "where": dict(self.where),
            "with_controls": self.with_controls,
            "with_unreviewed": self.with_unreviewed,
            "held_out": self.held_out,
            "seed": self.seed,
        } | ({"configuration": self.configuration} if self.configuration else {})

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Composition":
        return cls(**{**stored, "batches": tuple(stored.get("batches", ()))})

    def holds_out(self, source: str, external_id: str) -> bool:
        """Whether samples of this record are held out: the same in every release with this seed and share.

        By a digest and not by rank, so that no sample becomes public because another record was added.
        """
        digest = sha256(f"{self.seed}\n{source}\n{external_id}".encode()).digest()
        return int.from_bytes(digest[:8]) < self.held_out * 2**64


@dataclass(frozen=True, slots=True)
class Choice:
    """A version that goes in, and in which part."""

    version_id: int
    split: str


class Chosen(Sequence[Choice]):
    """Choices in their order, in nine bytes each: there may be a million. `ids`: their versions."""

    def __init__(self, found: Iterable[Choice]) -> None:
        self.ids = array("q")
        self._held_out = bytearray()
        for one in found:
            self.ids.append(one.version_id)
            self._held_out.append(one.split == ReleasedSample.Split.HELD_OUT)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Choice: ...
    @overload
    def __getitem__(self, at: slice) -> list[Choice]: ...
    def __getitem__(self, at: int | slice) -> Choice | list[Choice]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        split = ReleasedSample.Split.HELD_OUT if self._held_out[at] else ReleasedSample.Split.PUBLIC
        return Choice(self.ids[at], split)


def judged(benchmark: str, composition: Composition) -> QuerySet[SampleVersion]:
    """The living and withdrawn versions of a benchmark, each with `reason`: why it is left out, '' where it goes in."""
    rows = _alone(benchmark, composition)
    if not Sample.objects.filter(benchmark=benchmark).exclude(bound="").exists():
        return rows.annotate(reason=F("own_reason"))
    same = {name: OuterRef(f"sample__{name}") for name in ("record", "batch", "bound")}
    others = Sample.objects.filter(**same).exclude(pk=OuterRef("sample"))
    goes_in = _alone(benchmark, composition).filter(Q(own_reason=""), sample=OuterRef("pk"))
    torn = ~Q(sample__bound="") & (~Exists(others) | Exists(others.filter(~Exists(goes_in))))
    found = [When(~Q(own_reason=""), then=F("own_reason")), When(torn, then=Value("partner"))]
    return rows.annotate(reason=Case(*found, default=Value(""), output_field=CharField()))


def _alone(benchmark: str, composition: Composition) -> QuerySet[SampleVersion]:
    """The same with `own_reason`: why a version is left out whatever becomes of those that its sample is bound to."""
    rows = SampleVersion.objects.filter(
        sample__benchmark=benchmark, status__in=[Status.APPROVED, Status.IN_REVIEW, Status.WITHDRAWN]
    ).annotate(
        arm=F("sample__arm"),
        erratum=_LATEST_ERRATUM,
        is_simulated=Case(When(Q(simulated=True) | _BY_A_SIMULATED_REVIEWER, then=Value("yes")), default=Value("no")),
    )
    found = [
        When(status=Status.IN_REVIEW, then=Value("in-review")),
        When(Q(status=Status.WITHDRAWN), then=Value("withdrawn")),
        When(erratum=Erratum.Kind.REPORTED, then=Value("reported")),
        When(_SECOND_OF_A_PAIR, then=Value("second-of-pair")),
    ]
    if composition.batches:
        found.append(When(~Q(sample__batch__in=composition.batches), then=Value("other-batch")))
    found += [
        When(~Q(**{column: composition.where[name]}), then=Value(f"other-{name}"))
        for name, column in FIELDS.items()  # in their order: a database may give back keys in another
        if name in composition.where
    ]
    if not composition.with_controls:
        found.append(When(arm=CONTROL, then=Value("control")))
    if composition.reviewed == "yes":
        found.append(When(case__ground=Ground.UNREVIEWED, then=Value("unreviewed")))
    if composition.reviewed == "no":
        found.append(When(~Q(case__ground=Ground.UNREVIEWED), then=Value("reviewed")))
    if composition.simulated in ("yes", "no"):
        unwanted = "no" if composition.simulated == "yes" else "yes"
        found.append(When(is_simulated=unwanted, then=Value("not-simulated" if unwanted == "no" else "simulated")))
    if (chosen := configuration(benchmark, composition.configuration)) is not None:
        found += [*configured.too_long(chosen), *configured.made_otherwise(chosen)]
    return rows.annotate(own_reason=Case(*found, default=Value(""), output_field=CharField()))


@dataclass(frozen=True, slots=True)
class Tally:
    """How many samples go in, by what they are, and how many do not, by reason."""

    samples: int
    excluded: Mapping[str, int]
    grounds: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]  # source, task, language, arm, simulated -> value -> samples


def tally(benchmark: str, composition: Composition) -> Tally:
    """Count in the database. Raises NothingApproved, MixedSimulated."""
    columns = {"source": FIELDS["source"], "task": FIELDS["task"], "language": FIELDS["language"]}
    columns |= {"arm": "arm", "simulated": "is_simulated", "ground": "case__ground"}
    rows: Iterable[tuple[Any, ...]]
    chosen, drawn = _draw(benchmark, composition)
    if chosen is None or drawn is None:
        grouped = judged(benchmark, composition).order_by().values_list("reason", *columns.values())
        rows = grouped.annotate(n=Count("pk"))
    else:
        rows = _one_by_one(benchmark, composition, chosen, drawn, tuple(columns.values()))
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
        left = ", ".join(f"{reason} {n}" for reason, n in sorted(excluded.items()) if reason != "in-review")
        raise errors.NothingApproved(f"{benchmark} ({left})" if left else benchmark)
    if len(counts["simulated"]) > 1 and not composition.simulated:
        raise errors.MixedSimulated(", ".join(f"{name} {n}" for name, n in sorted(counts["simulated"].items())))
    grounds = counts.pop("ground")
    return Tally(
        samples=samples,
        excluded=dict(sorted(excluded.items())),
        grounds=dict(sorted(grounds.items())),
        counts={name: dict(sorted(values.items())) for name, values in counts.items()},
    )


def _draw(benchmark: str, composition: Composition) -> tuple[Configuration | None, configured.RecordDraw | None]:
    """The configuration, and which records are in where it cuts groups; None where it cuts none."""
    chosen = configuration(benchmark, composition.configuration)
    if chosen is None or not chosen.balanced:
        return chosen, None
    rows = judged(benchmark, composition).filter(Q(reason="")).order_by()
    rows_of = rows.values_list(configured.group_of(chosen), *_RECORD).iterator(chunk_size=5000)
    return chosen, configured.draw(chosen, composition.seed, rows_of)


def _one_by_one(
    benchmark: str,
    composition: Composition,
    chosen: Configuration,
    drawn: configured.RecordDraw,
    columns: Sequence[str],
) -> Iterator[tuple[Any, ...]]:
    """(reason, values of the columns, 1) of each sample: what is not drawn is a reason that no database knows."""
    of_each = ("reason", configured.group_of(chosen), *_RECORD, *columns)
    rows = judged(benchmark, composition).order_by().values_list(*of_each)
    for reason, group, source, external_id, *values in rows.iterator(chunk_size=5000):
        out = reason or ("" if drawn.takes(group, source, external_id) else configured.NOT_DRAWN)
        yield (out, *values, 1)


def choices(benchmark: str, composition: Composition) -> Iterator[Choice]:
    """What goes in, in the order of the samples."""
    rows = judged(benchmark, composition).filter(Q(reason="")).order_by("sample_id")
    chosen, drawn = _draw(benchmark, composition)
    group_of = configured.group_of(chosen) if chosen is not None and drawn is not None else Value("")
    for pk, group, source, external_id in rows.values_list("pk", group_of, *_RECORD).iterator(chunk_size=5000):
        if drawn is not None and not drawn.takes(group, source, external_id):
            continue
        held_out = composition.held_out and composition.holds_out(source, external_id)
        yield Choice(pk, ReleasedSample.Split.HELD_OUT if held_out else ReleasedSample.Split.PUBLIC)
