"""Do models fall for the traps that people fall for?

Compares what physicians noticed before a trap was revealed with the models' failures, for
benchmarks whose review form has the question `noticed` before the reveal. Only the blind answers of
the two reviewers count. Physicians are never told apart, and nothing is shown for fewer answers
than `MINIMUM` (per trap) or `MIN_SAMPLE_ANSWERS` (per sample).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from evaluation import registry
from evaluation.models import Run
from evaluation.numbers.frame import Frame
from evaluation.numbers.late import pl
from evaluation.numbers.totals import UnitTotals, facet_totals, unit_totals
from evaluation.protocol import Rate
from evaluation.runs.plan import plan_of
from evaluation.runs.verdicts import run_frame
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.intervals import MINIMUM, Method, rate_interval
from generation.models import ReleasedSample
from generation.samples import errata
from generation.samples import queries as samples_queries
from review.quality.reliability import blind_answers
from review.rules.shown_fields import Hidden, Shown
from review.rules.state_machine import Role

QUESTION, YES, NO = "noticed", "yes", "no"
MIN_SAMPLE_ANSWERS = 2  # physicians' answers to one sample; a single one is never shown
SUBTYPE = "subtype"
GroupName = Literal["none", "some", "all"]  # of the physicians who noticed something


@dataclass(frozen=True, slots=True)
class PhysicianCount:
    """How many physicians were asked, and how many of them noticed something."""

    noticed: int
    asked: int

    @property
    def share(self) -> float:
        return self.noticed / self.asked


@dataclass(frozen=True, slots=True)
class Failures:
    """The numerator and denominator of a rate over one or all models."""

    hits: Annotated[int, Shown("numerator")]
    counted: Annotated[int, Shown("denominator")]

    @property
    @Shown("value")
    def share(self) -> float | None:
        if self.counted:
            return self.hits / self.counted
        return None


@dataclass(frozen=True, slots=True)
class NoticedSample:
    """A sample that at least `MIN_SAMPLE_ANSWERS` physicians were asked about."""

    key: str
    physicians: PhysicianCount
    models: Failures


@dataclass(frozen=True, slots=True)
class NoticedTrap:
    """A trap. `physicians` is None if there are fewer than `MINIMUM` `answers`."""

    code: str
    label: Hidden[str]
    answers: int
    samples: int
    physicians: PhysicianCount | None
    models: Failures


@dataclass(frozen=True, slots=True)
class ModelRate:
    """The rate of one model with its 95 % interval; the sample is the cluster."""

    endpoint: str
    value: float | None
    low: float | None
    high: float | None
    method: Method
    clusters: int
    n: int


@dataclass(frozen=True, slots=True)
class NoticedGroup:
    """The samples that none, some or all physicians noticed something in, with models' rates."""

    name: GroupName
    samples: int
    answers: int
    rates: tuple[ModelRate, ...]


@dataclass(frozen=True, slots=True)
class NoticedReport:
    """The comparison of physicians and models.

    `asked`: samples with an answer of a physician and a verdict on a model, which alone count;
    `answers`: physicians' answers to them; `samples`: in release order.
    """

    rate: Hidden[Rate]
    endpoints: Hidden[tuple[str, ...]]
    asked: int
    answers: int
    traps: tuple[NoticedTrap, ...]
    groups: tuple[NoticedGroup, ...]
    samples: tuple[NoticedSample, ...]

    @property
    @Shown("rate")
    def rate_name(self) -> str:
        return self.rate.name


def noticed_report(run: Run, reader: object) -> NoticedReport:
    """Compare what physicians noticed in the samples of a run's release with its models' failures.

    Counts like the report: the rules of the run, no control samples, source records as clusters.
    All samples are counted; those that `reader` may see are listed.
    """
    protocol = registry.protocol(run.release.benchmark)
    rate, minimum = protocol.rates[0], plan_of(run, protocol, ()).minimum
    endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    all_physicians = _physicians(run)
    counted = _models(run, rate, all_physicians)
    models = counted.failures()
    physicians = {sample: count for sample, count in all_physicians.items() if sample in models}
    shown = {}
    answers = 0
    for sample, count in physicians.items():
        answers += count.asked
        if count.asked >= MIN_SAMPLE_ANSWERS:
            shown[sample] = count
    visible = samples_queries.visible_to(reader, ReleasedSample.objects.filter(release=run.release_id))
    listed = []
    for sample, key in visible.order_by("position").values_list("pk", "key"):
        if sample in shown:
            listed.append(NoticedSample(key, shown[sample], _pool(models[sample].values())))
    return NoticedReport(
        rate=rate,
        endpoints=endpoints,
        asked=len(physicians),
        answers=answers,
        traps=_traps(run, counted, physicians),
        groups=_groups(shown, models, endpoints, counted.clusters, minimum),
        samples=tuple(listed),
    )


def _physicians(run: Run) -> dict[int, PhysicianCount]:
    """Released sample that is not withdrawn -> how many reviewers of its case noticed something."""
    standing = errata.standing(run.release)
    sample_of = dict(standing.values_list("version__case", "pk"))
    value = KeyTextTransform("value", KeyTransform(QUESTION, KeyTransform("questions", "answers")))
    cases = standing.values("version__case")
    rows = blind_answers().filter(case__in=cases, role__in=[Role.PRIMARY, Role.SECONDARY])
    answers: dict[int, Counter[str]] = defaultdict(Counter)
    for case, answer in rows.order_by().annotate(answer=value).values_list("case", "answer"):
        if answer in (YES, NO):
            answers[sample_of[case]][answer] += 1
    return {sample: PhysicianCount(count[YES], count.total()) for sample, count in answers.items()}


@dataclass(frozen=True)
class _Models:
    """The frame of the models' verdicts on the samples that physicians saw."""

    frame: Frame
    rate: Rate

    def failures(self) -> dict[int, dict[str, Failures]]:
        """Released sample -> endpoint -> failures."""
        return _failures(unit_totals(self.frame, [self.rate])[self.rate.name])

    def by_value(self, facet: str) -> dict[str, dict[int, dict[str, Failures]]]:
        """Value of a facet -> released sample -> endpoint -> failures."""
        by_value = {}
        for value, totals in facet_totals(self.frame, [self.rate], self.frame.by_value(facet)):
            by_value[value] = _failures(totals[self.rate.name])
        return by_value

    @property
    def clusters(self) -> dict[int, int]:
        """Released sample -> its cluster."""
        return dict(self.frame.units.select("sample", "cluster").iter_rows())


def _failures(totals: UnitTotals) -> dict[int, dict[str, Failures]]:
    """Of the samples and endpoints with a verdict that counts."""
    sums: dict[int, dict[str, Failures]] = defaultdict(dict)
    for unit in np.flatnonzero(totals.in_arm).tolist():
        sample = int(totals.units["sample"][unit])
        for place, endpoint in enumerate(totals.models):
            of_unit = totals.sums[place, unit]
            own = Failures(int(of_unit["hits"]), int(of_unit["counted"]))
            if own.counted:
                sums[sample][endpoint] = _pool([own, sums[sample].get(endpoint, Failures(0, 0))])
    return dict(sums)


def _models(run: Run, rate: Rate, physicians: Mapping[int, PhysicianCount]) -> _Models:
    frame = run_frame(run).current
    seen = pl.col("sample").is_in(list(physicians))
    return _Models(replace(frame, rows=frame.rows.filter(seen), units=frame.units.filter(seen)), rate)


def _traps(run: Run, models: _Models, physicians: Mapping[int, PhysicianCount]) -> tuple[NoticedTrap, ...]:
    labels = samples_queries.term_labels(run.release.benchmark)
    traps = []
    for code, failures in models.by_value(SUBTYPE).items():
        if not failures:
            continue
        noticed = asked = 0
        of_models: list[Failures] = []
        for sample, by_endpoint in failures.items():
            noticed += physicians[sample].noticed
            asked += physicians[sample].asked
            of_models += by_endpoint.values()
        shown = None
        if asked >= MINIMUM:
            shown = PhysicianCount(noticed, asked)
        traps.append(NoticedTrap(code, labels.get(code, code), asked, len(failures), shown, _pool(of_models)))
    return tuple(traps)


def _groups(
    physicians: Mapping[int, PhysicianCount],
    models: Mapping[int, Mapping[str, Failures]],
    endpoints: Sequence[str],
    clusters: Mapping[int, int],
    minimum: int,
) -> tuple[NoticedGroup, ...]:
    samples_of: dict[GroupName, list[int]] = {"none": [], "some": [], "all": []}
    answers = Counter[GroupName]()
    for sample, count in physicians.items():
        name: GroupName = "some"
        if not count.noticed:
            name = "none"
        elif count.noticed == count.asked:
            name = "all"
        samples_of[name].append(sample)
        answers[name] += count.asked

    def model_rate(samples: Sequence[int], endpoint: str) -> ModelRate:
        numbers = []
        for sample in samples:
            failures = models[sample].get(endpoint)
            if failures is not None:
                numbers.append([clusters[sample], failures.hits, failures.counted])
        columns = np.array(numbers, dtype=np.int64).reshape(-1, 3).T
        rate = rate_interval(*cluster_totals(columns[0], columns[1], columns[2]), minimum=minimum)
        return ModelRate(endpoint, rate.value, rate.low, rate.high, rate.method, rate.clusters, rate.n)

    groups = []
    for name, samples in samples_of.items():
        rates = [model_rate(samples, endpoint) for endpoint in endpoints]
        groups.append(NoticedGroup(name, len(samples), answers[name], tuple(rates)))
    return tuple(groups)


def _pool(parts: Iterable[Failures]) -> Failures:
    hits = counted = 0
    for part in parts:
        hits += part.hits
        counted += part.counted
    return Failures(hits, counted)
