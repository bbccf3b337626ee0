"""Do models fall for the traps that people fall for?

Compares what physicians noticed before a trap was revealed with the models' failures, for
benchmarks whose review form has the question `noticed` before the reveal. Only the blind answers of
the two reviewers count. Physicians are never told apart, and nothing is shown for fewer answers
than `MINIMUM` (per trap) or `MIN_SAMPLE_ANSWERS` (per sample).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Case, IntegerField, QuerySet, Sum, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from evaluation import registry
from evaluation.models import Judgment, Run
from evaluation.protocol import Rate
from evaluation.statistics.intervals import MINIMUM, RateInterval, rate_interval
from generation.models import ReleasedSample
from generation.samples import queries as samples_queries
from review.quality.reliability import blind_answers
from review.rules.state_machine import Role

QUESTION, YES, NO = "noticed", "yes", "no"
MIN_SAMPLE_ANSWERS = 2  # physicians' answers to one sample; a single one is never shown
SUBTYPE = "subtype"


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

    hits: int
    counted: int

    @property
    def share(self) -> float | None:
        return self.hits / self.counted if self.counted else None


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
    label: str
    answers: int
    samples: int
    physicians: PhysicianCount | None
    models: Failures


@dataclass(frozen=True, slots=True)
class NoticedGroup:
    """The samples that none, some or all physicians noticed something in, with models' rates."""

    name: str  # none, some, all
    samples: int
    answers: int
    rates: tuple[RateInterval, ...]


@dataclass(frozen=True, slots=True)
class NoticedReport:
    """The comparison of physicians and models.

    `asked`: samples with any answer of a physician; `answers`: physicians' answers in total;
    `samples`: in release order.
    """

    rate: Rate
    endpoints: tuple[str, ...]
    asked: int
    answers: int
    traps: tuple[NoticedTrap, ...]
    groups: tuple[NoticedGroup, ...]
    samples: tuple[NoticedSample, ...]


def noticed_report(run: Run) -> NoticedReport:
    """Compare what physicians noticed in the samples of a run's release with its models' failures.

    Takes five database queries.
    """
    rate = registry.protocol(run.release.benchmark).rates[0]
    physicians = _physicians(run)
    endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    models = _models(run, rate, physicians)
    pooled = {sample: _pool(by_endpoint.values()) for sample, by_endpoint in models.items()}
    shown = {
        sample: count for sample, count in physicians.items() if count.asked >= MIN_SAMPLE_ANSWERS and sample in pooled
    }
    keys = dict(ReleasedSample.objects.filter(release=run.release_id).order_by("position").values_list("pk", "key"))
    return NoticedReport(
        rate=rate,
        endpoints=endpoints,
        asked=len(physicians),
        answers=sum(count.asked for count in physicians.values()),
        traps=_traps(run, rate, physicians),
        groups=_groups(shown, models, endpoints),
        samples=tuple(NoticedSample(keys[sample], shown[sample], pooled[sample]) for sample in keys if sample in shown),
    )


def _physicians(run: Run) -> dict[int, PhysicianCount]:
    """Released sample -> how many reviewers of its case noticed something."""
    sample_of = dict(ReleasedSample.objects.filter(release=run.release_id).values_list("version__case", "pk"))
    value = KeyTextTransform("value", KeyTransform(QUESTION, KeyTransform("questions", "answers")))
    cases = ReleasedSample.objects.filter(release=run.release_id).values("version__case")
    rows = blind_answers().filter(case__in=cases, role__in=[Role.PRIMARY, Role.SECONDARY])
    answers: dict[int, Counter[str]] = defaultdict(Counter)
    for case, answer in rows.order_by().annotate(answer=value).values_list("case", "answer"):
        if answer in (YES, NO):
            answers[sample_of[case]][answer] += 1
    return {sample: PhysicianCount(count[YES], count.total()) for sample, count in answers.items()}


def _judgments(run: Run, physicians: Mapping[int, PhysicianCount]) -> QuerySet[Judgment]:
    return Judgment.objects.filter(run=run, rubric__sample__in=list(physicians)).order_by()


def _models(run: Run, rate: Rate, physicians: Mapping[int, PhysicianCount]) -> dict[int, dict[str, Failures]]:
    """Released sample -> endpoint -> failures."""
    rows = _judgments(run, physicians).values_list("rubric__sample", "response__endpoint__name")
    failures: dict[int, dict[str, Failures]] = defaultdict(dict)
    for sample, endpoint, hits, counted in rows.annotate(hits=_total(rate.hits), counted=_total(rate.counted)):
        failures[sample][endpoint] = Failures(hits, counted)
    return failures


def _traps(run: Run, rate: Rate, physicians: Mapping[int, PhysicianCount]) -> tuple[NoticedTrap, ...]:
    labels = {term.code: term.label for term in samples_queries.terms(run.release.benchmark)}
    rows = _judgments(run, physicians).filter(rubric__facets__name=SUBTYPE)
    by_sample = rows.values_list("rubric__facets__value", "rubric__sample")
    samples: dict[str, set[int]] = defaultdict(set)
    failures: dict[str, list[Failures]] = defaultdict(list)
    for code, sample, hits, counted in by_sample.annotate(hits=_total(rate.hits), counted=_total(rate.counted)):
        samples[code].add(sample)
        failures[code].append(Failures(hits, counted))
    traps = []
    for code in sorted(samples):
        counts = [physicians[sample] for sample in samples[code]]
        total = PhysicianCount(sum(count.noticed for count in counts), sum(count.asked for count in counts))
        shown = total if total.asked >= MINIMUM else None
        traps.append(NoticedTrap(code, labels.get(code, code), total.asked, len(counts), shown, _pool(failures[code])))
    return tuple(traps)


def _groups(
    physicians: Mapping[int, PhysicianCount], models: Mapping[int, Mapping[str, Failures]], endpoints: Sequence[str]
) -> tuple[NoticedGroup, ...]:
    groups: dict[str, list[int]] = {"none": [], "some": [], "all": []}
    for sample, count in physicians.items():
        groups["none" if not count.noticed else "all" if count.noticed == count.asked else "some"].append(sample)
    return tuple(
        NoticedGroup(
            name,
            len(samples),
            sum(physicians[sample].asked for sample in samples),
            tuple(_rate([models[sample].get(endpoint) for sample in samples]) for endpoint in endpoints),
        )
        for name, samples in groups.items()
    )


def _rate(by_sample: Sequence[Failures | None]) -> RateInterval:
    """A model's rate on some samples, with samples as clusters."""
    counted = [failures for failures in by_sample if failures is not None and failures.counted]
    hits = np.array([failures.hits for failures in counted], float)
    return rate_interval(hits, np.array([failures.counted for failures in counted], float))


def _pool(parts: Iterable[Failures]) -> Failures:
    failures = list(parts)
    return Failures(sum(part.hits for part in failures), sum(part.counted for part in failures))


def _total(weights: Mapping[str, int]) -> Sum:
    whens = [When(verdict=verdict, then=Value(weight)) for verdict, weight in weights.items()]
    return Sum(Case(*whens, default=Value(0), output_field=IntegerField()))
