"""Self-preference: who of a tested model's own family made the samples or judged the answers, and what it comes to."""

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
    """An endpoint with a part in the numbers, and the tested models of its family. `role`: judge, or of a sample's making."""

    role: str
    endpoint: str
    family: str
    tested: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preference:
    """How much less often a judge fails its own family than the panel's other judges do, against other families.

    `own`, `others`: the judge's rate minus that of the judges of other families, on its own family and on the others, over the
    same criteria. `difference`: own - others; below 0: it favours its own.
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
    kin: tuple[Kin, ...]
    preferences: tuple[Preference, ...]


def self_preference(run: Run) -> SelfPreference:
    """All that share a family with a tested model; and where judges of several families voted, by how much they favour it."""
    tested = [row.endpoint for row in run.tested.select_related("endpoint").order_by("pk")]
    judges = judges_of(run)
    parts = [("judge", judge) for judge in judges] + makers(run.release)
    kin = []
    for role, endpoint in dict.fromkeys(parts):
        family = endpoint.model_family
        if own := tuple(model.name for model in tested if model.model_family == family):
            kin.append(Kin(role, endpoint.name, family, own))
    wanted = {each.endpoint for each in kin if each.role == "judge"}
    found = [_preference(run, judge, judges, tested) for judge in judges if judge.name in wanted]
    return SelfPreference(tuple(kin), tuple(each for each in found if each is not None))


def makers(release: Release) -> list[tuple[str, Endpoint]]:
    """(role, endpoint) of the models that had a part in making a release's samples: generators, voters, examiners."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    roles = BatchRole.objects.filter(batch__in=batches).select_related("endpoint").order_by("role", "endpoint")
    return list(dict.fromkeys((row.role, row.endpoint) for row in roles))


def _preference(run: Run, judge: Endpoint, judges: list[Endpoint], tested: list[Endpoint]) -> Preference | None:
    """None where the panel has no judge of another family, or no model of another one was tested."""
    others = [each.pk for each in judges if each.model_family != judge.model_family]
    if not run.panel or not others:
        return None
    mine, theirs = _rates(run, [judge.pk], others), _rates(run, others, [judge.pk])
    gaps: dict[bool, list[Any]] = defaultdict(lambda: [0, 0, 0, 0])
    for model in tested:
        same = model.model_family == judge.model_family
        for at, value in enumerate((*mine.get(model.name, (0, 0)), *theirs.get(model.name, (0, 0)))):
            gaps[same][at] += value
    if not all(gaps[same][1] and gaps[same][3] for same in (True, False)):
        return None
    own, other = (gaps[same][0] / gaps[same][1] - gaps[same][2] / gaps[same][3] for same in (True, False))
    return Preference(judge.name, judge.model_family, own, other, gaps[True][1], gaps[False][1])


def _rates(run: Run, judges: list[int], beside: list[int]) -> Counts:
    """Votes of these judges on criteria on which one of the others voted as well."""
    protocol = registry.protocol(run.release.benchmark)
    counted: dict[str, Any] = {"status": Work.Status.DONE, "verdict__in": protocol.rates[0].scope_verdicts}
    both = Vote.objects.filter(run=run, judge__in=beside, **counted).values("judgment")
    votes: QuerySet[Any] = Vote.objects.filter(run=run, judge__in=judges, judgment__in=both, **counted).order_by()
    failed = Count("pk", filter=Q(verdict__in=protocol.failing_verdicts))
    rows = votes.values_list("judgment__response__endpoint__name").annotate(failed=failed, n=Count("pk"))
    return {model: (hits, n) for model, hits, n in rows}


def rates_by_family(run: Run, judged: Counts | None = None) -> dict[str, tuple[int, int]]:
    """Model family -> (failed, judged), by the verdicts that count. `judged`: those of each model, where they are known."""
    families = {row.endpoint.name: row.endpoint.model_family for row in run.tested.select_related("endpoint")}
    found: dict[str, tuple[int, int]] = {}
    for endpoint, (hits, n) in (_judged(run) if judged is None else judged).items():
        before = found.get(families[endpoint], (0, 0))
        found[families[endpoint]] = (before[0] + hits, before[1] + n)
    return {family: counts for family, counts in found.items() if counts[1]}


def _judged(run: Run) -> Counts:
    protocol = registry.protocol(run.release.benchmark)
    judged = Judgment.objects.filter(
        run=run, status=Work.Status.DONE, verdict__in=protocol.rates[0].scope_verdicts
    ).order_by()
    failed = Count("pk", filter=Q(verdict__in=protocol.failing_verdicts))
    rows = judged.values_list("response__endpoint__name").annotate(failed=failed, n=Count("pk"))
    return {endpoint: (hits, n) for endpoint, hits, n in rows}
