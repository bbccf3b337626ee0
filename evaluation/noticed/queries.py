"""Who falls for what people fall for: what physicians noticed before a trap was revealed, beside the models' failures.

Asked of benchmarks whose review form has the question `noticed` before the reveal. Only blind answers of the two reviewers
count. Nothing here tells one physician from another, and nothing is said of fewer answers than `MINIMUM` (of a trap) or
`LEAST` (of a sample).
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
LEAST = 2  # answers of physicians to one sample: one alone is not shown
SUBTYPE = "subtype"


@dataclass(frozen=True, slots=True)
class Noticed:
    """So many of the physicians who were asked noticed something."""

    noticed: int
    asked: int

    @property
    def share(self) -> float:
        return self.noticed / self.asked


@dataclass(frozen=True, slots=True)
class Failures:
    """The models' rate, all pooled: its numerator and its denominator."""

    hits: int
    counted: int

    @property
    def share(self) -> float | None:
        return self.hits / self.counted if self.counted else None


@dataclass(frozen=True, slots=True)
class OfSample:
    """One sample that at least `LEAST` physicians were asked about."""

    key: str
    physicians: Noticed
    models: Failures


@dataclass(frozen=True, slots=True)
class OfTrap:
    """One trap; `physicians`: None below `MINIMUM` answers. `answers`: how many there are."""

    code: str
    label: str
    answers: int
    samples: int
    physicians: Noticed | None
    models: Failures


@dataclass(frozen=True, slots=True)
class OfGroup:
    """The samples that none, some or all of the physicians noticed something in, with each model's rate on them."""

    name: str  # none, some, all
    samples: int
    answers: int
    rates: tuple[RateInterval, ...]


@dataclass(frozen=True, slots=True)
class NoticedReport:
    """`samples` in release order. `asked`: samples with any answer; `answers`: of physicians, in all."""

    rate: Rate
    endpoints: tuple[str, ...]
    asked: int
    answers: int
    traps: tuple[OfTrap, ...]
    groups: tuple[OfGroup, ...]
    samples: tuple[OfSample, ...]


def noticed_report(run: Run) -> NoticedReport:
    """What physicians noticed in the samples of a run's release, beside what its models made of them: five queries."""
    rate = registry.protocol(run.release.benchmark).rates[0]
    physicians = _physicians(run)
    endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    models = _models(run, rate, physicians)
    together = {one: _pool(found.values()) for one, found in models.items()}
    known = {one: said for one, said in physicians.items() if said.asked >= LEAST and one in together}
    keys = dict(ReleasedSample.objects.filter(release=run.release_id).order_by("position").values_list("pk", "key"))
    return NoticedReport(
        rate=rate,
        endpoints=endpoints,
        asked=len(physicians),
        answers=sum(said.asked for said in physicians.values()),
        traps=_traps(run, rate, physicians),
        groups=_groups(known, models, endpoints),
        samples=tuple(OfSample(keys[one], known[one], together[one]) for one in keys if one in known),
    )


def _physicians(run: Run) -> dict[int, Noticed]:
    """Released sample -> what the reviewers of its case noticed."""
    case_of = dict(ReleasedSample.objects.filter(release=run.release_id).values_list("version__case", "pk"))
    value = KeyTextTransform("value", KeyTransform(QUESTION, KeyTransform("questions", "answers")))
    cases = ReleasedSample.objects.filter(release=run.release_id).values("version__case")
    rows = blind_answers().filter(case__in=cases, role__in=[Role.PRIMARY, Role.SECONDARY])
    said: dict[int, Counter[str]] = defaultdict(Counter)
    for case, answer in rows.order_by().annotate(said=value).values_list("case", "said"):
        if answer in (YES, NO):
            said[case_of[case]][answer] += 1
    return {sample: Noticed(found[YES], found.total()) for sample, found in said.items()}


def _counted(run: Run, physicians: Mapping[int, Noticed]) -> QuerySet[Judgment]:
    return Judgment.objects.filter(run=run, rubric__sample__in=list(physicians)).order_by()


def _models(run: Run, rate: Rate, physicians: Mapping[int, Noticed]) -> dict[int, dict[str, Failures]]:
    """Released sample -> endpoint -> its failures."""
    rows = _counted(run, physicians).values_list("rubric__sample", "response__endpoint__name")
    found: dict[int, dict[str, Failures]] = defaultdict(dict)
    for sample, endpoint, hits, counted in rows.annotate(hits=_total(rate.hits), counted=_total(rate.counted)):
        found[sample][endpoint] = Failures(hits, counted)
    return found


def _traps(run: Run, rate: Rate, physicians: Mapping[int, Noticed]) -> tuple[OfTrap, ...]:
    labels = {term.code: term.label for term in samples_queries.terms(run.release.benchmark)}
    rows = _counted(run, physicians).filter(rubric__facets__name=SUBTYPE)
    by_sample = rows.values_list("rubric__facets__value", "rubric__sample")
    samples: dict[str, set[int]] = defaultdict(set)
    failures: dict[str, list[Failures]] = defaultdict(list)
    for code, sample, hits, counted in by_sample.annotate(hits=_total(rate.hits), counted=_total(rate.counted)):
        samples[code].add(sample)
        failures[code].append(Failures(hits, counted))
    traps = []
    for code in sorted(samples):
        said = [physicians[one] for one in samples[code]]
        together = Noticed(sum(one.noticed for one in said), sum(one.asked for one in said))
        shown = together if together.asked >= MINIMUM else None
        traps.append(OfTrap(code, labels.get(code, code), together.asked, len(said), shown, _pool(failures[code])))
    return tuple(traps)


def _groups(
    known: Mapping[int, Noticed], models: Mapping[int, Mapping[str, Failures]], endpoints: Sequence[str]
) -> tuple[OfGroup, ...]:
    groups: dict[str, list[int]] = {"none": [], "some": [], "all": []}
    for sample, said in known.items():
        groups["none" if not said.noticed else "all" if said.noticed == said.asked else "some"].append(sample)
    return tuple(
        OfGroup(
            name,
            len(samples),
            sum(known[one].asked for one in samples),
            tuple(_rate([models[one].get(endpoint) for one in samples]) for endpoint in endpoints),
        )
        for name, samples in groups.items()
    )


def _rate(found: Sequence[Failures | None]) -> RateInterval:
    """A model's rate on some samples; the sample is the cluster."""
    there = [each for each in found if each is not None and each.counted]
    return rate_interval(
        np.array([each.hits for each in there], float), np.array([each.counted for each in there], float)
    )


def _pool(found: Iterable[Failures]) -> Failures:
    each = list(found)
    return Failures(sum(one.hits for one in each), sum(one.counted for one in each))


def _total(weights: Mapping[str, int]) -> Sum:
    whens = [When(verdict=verdict, then=Value(weight)) for verdict, weight in weights.items()]
    return Sum(Case(*whens, default=Value(0), output_field=IntegerField()))
