"""Self-preference: models of a tested model's family that made samples or judged answers.

For panels, also how much a judge favours its own family.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from evaluation import registry
from evaluation.models import Judgment, Run, Vote
from evaluation.runs.queries import judges_of
from generation.models import BatchRole, Endpoint, Release, ReleasedSample
from generation.models.work import Work

Counts = Mapping[str, tuple[int, int]]  # model under test -> (failed, judged)


@dataclass(frozen=True, slots=True)
class Kin:
    """An endpoint that judged or made samples, and the tested models of the same family.

    `role`: 'judge', or its role in making the samples.
    """

    role: str
    endpoint: str
    family: str
    tested: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preference:
    """How much a judge of a panel favours its own model family.

    `own`, `others`: the judge's failure rate minus that of the judges of other families, over the
    same criteria, on models of its own family and of other families.
    `difference`: own - others; below 0 the judge favours its own family.
    """

    judge: str
    family: str
    own: float
    others: float
    own_n: int
    others_n: int

    @property
    def difference(self) -> float:
        return self.own - self.others


@dataclass(frozen=True, slots=True)
class SelfPreference:
    """The kin of tested models, and the preferences of the judges among them."""

    kin: tuple[Kin, ...]
    preferences: tuple[Preference, ...]


def self_preference(run: Run) -> SelfPreference:
    """The endpoints that share a family with a tested model, and how much such judges favour it.

    There are preferences only for panels with judges of several families.
    """
    tested = [row.endpoint for row in run.tested.select_related("endpoint").order_by("pk")]
    judges = judges_of(run)
    contributors = [("judge", judge) for judge in judges] + makers(run.release)
    kin = []
    for role, endpoint in dict.fromkeys(contributors):
        family = endpoint.model_family
        if same_family := tuple(model.name for model in tested if model.model_family == family):
            kin.append(Kin(role, endpoint.name, family, same_family))
    kin_judges = {relative.endpoint for relative in kin if relative.role == "judge"}
    preferences = [_preference(run, judge, judges, tested) for judge in judges if judge.name in kin_judges]
    return SelfPreference(tuple(kin), tuple(preference for preference in preferences if preference is not None))


def makers(release: Release) -> list[tuple[str, Endpoint]]:
    """(role, endpoint) of the models that helped to make the samples of a release, in any role."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    roles = BatchRole.objects.filter(batch__in=batches).select_related("endpoint").order_by("role", "endpoint")
    return list(dict.fromkeys((row.role, row.endpoint) for row in roles))


def _preference(run: Run, judge: Endpoint, judges: list[Endpoint], tested: list[Endpoint]) -> Preference | None:
    """None if the panel has no judge, or the run no tested model, of another family."""
    others = [other.pk for other in judges if other.model_family != judge.model_family]
    if not run.panel or not others:
        return None
    by_judge, by_others = _vote_counts(run, [judge.pk], others), _vote_counts(run, others, [judge.pk])
    # Is the model of the judge's family? -> failed and judged by the judge, then by the others
    sums: dict[bool, list[Any]] = defaultdict(lambda: [0, 0, 0, 0])
    for model in tested:
        same = model.model_family == judge.model_family
        for index, value in enumerate((*by_judge.get(model.name, (0, 0)), *by_others.get(model.name, (0, 0)))):
            sums[same][index] += value
    if not all(sums[same][1] and sums[same][3] for same in (True, False)):
        return None
    own, other = (sums[same][0] / sums[same][1] - sums[same][2] / sums[same][3] for same in (True, False))
    return Preference(judge.name, judge.model_family, own, other, sums[True][1], sums[False][1])


def _vote_counts(run: Run, judges: list[int], others: list[int]) -> Counts:
    """Counts the votes of `judges` on criteria on which one of `others` voted too."""
    protocol = registry.protocol(run.release.benchmark)
    counted: dict[str, Any] = {"status": Work.Status.DONE, "verdict__in": protocol.rates[0].scope_verdicts}
    both = Vote.objects.filter(run=run, judge__in=others, **counted).values("judgment")
    votes: QuerySet[Any] = Vote.objects.filter(run=run, judge__in=judges, judgment__in=both, **counted).order_by()
    failed = Count("pk", filter=Q(verdict__in=protocol.failing_verdicts))
    rows = votes.values_list("judgment__response__endpoint__name").annotate(failed=failed, n=Count("pk"))
    return {model: (hits, n) for model, hits, n in rows}


def rates_by_family(run: Run, judged: Counts | None = None) -> dict[str, tuple[int, int]]:
    """Model family -> (failed, judged), over the verdicts that the first rate counts.

    `judged`: the counts of each model, if they are known already.
    """
    families = {row.endpoint.name: row.endpoint.model_family for row in run.tested.select_related("endpoint")}
    sums: dict[str, tuple[int, int]] = {}
    for endpoint, (failed, n) in (_judgment_counts(run) if judged is None else judged).items():
        previous = sums.get(families[endpoint], (0, 0))
        sums[families[endpoint]] = (previous[0] + failed, previous[1] + n)
    return {family: counts for family, counts in sums.items() if counts[1]}


def _judgment_counts(run: Run) -> Counts:
    protocol = registry.protocol(run.release.benchmark)
    judged = Judgment.objects.filter(
        run=run, status=Work.Status.DONE, verdict__in=protocol.rates[0].scope_verdicts
    ).order_by()
    failed = Count("pk", filter=Q(verdict__in=protocol.failing_verdicts))
    rows = judged.values_list("response__endpoint__name").annotate(failed=failed, n=Count("pk"))
    return {endpoint: (hits, n) for endpoint, hits, n in rows}
