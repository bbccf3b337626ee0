"""Self-preference: models of a tested model's family that made samples or judged answers.

For panels, also how much a judge favours its own family.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluation import registry
from evaluation.models import Run
from evaluation.runs.queries import judges_of
from evaluation.runs.rows.verdicts import counted_verdicts, read_votes
from evaluation.verdicts.selection import JudgeVote, counts_against, votes_in_scope
from evaluation.verdicts.table import VerdictTable
from generation.models import BatchRole, Endpoint, Release, ReleasedSample

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
    preferences: list[Preference | None] = []
    if run.panel and kin_judges and len({judge.model_family for judge in judges}) > 1:
        protocol, table = registry.protocol(run.release.benchmark), counted_verdicts(run)
        votes = votes_in_scope(table, protocol.rates[0], protocol.failing_verdicts, read_votes(run))
        preferences = [_preference(judge, judges, tested, votes, table) for judge in judges if judge.name in kin_judges]
    return SelfPreference(tuple(kin), tuple(preference for preference in preferences if preference is not None))


def makers(release: Release) -> list[tuple[str, Endpoint]]:
    """(role, endpoint) of the models that helped to make the samples of a release, in any role."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    roles = BatchRole.objects.filter(batch__in=batches).select_related("endpoint").order_by("role", "endpoint")
    return list(dict.fromkeys((row.role, row.endpoint) for row in roles))


def _preference(
    judge: Endpoint, judges: list[Endpoint], tested: list[Endpoint], votes: Sequence[JudgeVote], table: VerdictTable
) -> Preference | None:
    """None if the panel has no judge, or the run no tested model, of another family."""
    others = {other.name for other in judges if other.model_family != judge.model_family}
    family_of = {model.name: model.model_family for model in tested}
    by_row: dict[int, tuple[list[bool], list[bool]]] = defaultdict(lambda: ([], []))
    for vote in votes:
        if vote.judge == judge.name or vote.judge in others:
            by_row[vote.row][vote.judge in others].append(vote.failed)
    # Is the model of the judge's family? -> failed and judged by the judge, then by the others
    sums: dict[bool, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row, sides in by_row.items():
        if all(sides):  # criteria on which both voted
            same = family_of[table.endpoints[table.endpoint[row]]] == judge.model_family
            for place, failed in enumerate(sides):
                sums[same][2 * place] += sum(failed)
                sums[same][2 * place + 1] += len(failed)
    if not all(sums[same][1] and sums[same][3] for same in (True, False)):
        return None
    own, other = (sums[same][0] / sums[same][1] - sums[same][2] / sums[same][3] for same in (True, False))
    return Preference(judge.name, judge.model_family, own, other, sums[True][1], sums[False][1])


def rates_by_family(run: Run, judged: Counts) -> dict[str, tuple[int, int]]:
    """Model family -> (failed, judged). `judged`: the counts of each model."""
    families = {row.endpoint.name: row.endpoint.model_family for row in run.tested.select_related("endpoint")}
    sums: dict[str, tuple[int, int]] = {}
    for endpoint, (failed, n) in judged.items():
        previous = sums.get(families[endpoint], (0, 0))
        sums[families[endpoint]] = (previous[0] + failed, previous[1] + n)
    return {family: counts for family, counts in sums.items() if counts[1]}


def judged_counts(run: Run) -> Counts:
    """The counts of each model, over the verdicts in the protocol's first rate."""
    protocol = registry.protocol(run.release.benchmark)
    return counts_against(counted_verdicts(run), protocol.rates[0], protocol.failing_verdicts)
