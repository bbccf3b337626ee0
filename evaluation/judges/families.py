"""The endpoints of a run that share a family with a tested model."""

from evaluation import registry
from evaluation.judges.numbers.families import (
    Counts,
    Member,
    SelfPreference,
    find_kin,
    has_preferences,
    preferences,
)
from evaluation.models import Run
from evaluation.runs.queries import judges_of
from evaluation.runs.rows.verdicts import RunVerdicts
from evaluation.verdicts.selection import counts_against
from generation.models import BatchRole, Endpoint, Release, ReleasedSample


def member(endpoint: Endpoint) -> Member:
    """The endpoint with the family of its model."""
    return Member(endpoint.name, endpoint.model_family)


def tested_members(run: Run) -> list[Member]:
    """The models under test."""
    return [member(row.endpoint) for row in run.tested.select_related("endpoint").order_by("pk")]


def self_preference(verdicts: RunVerdicts) -> SelfPreference:
    """The endpoints that share a family with a tested model, and how much such judges favour it.

    There are preferences only for panels with judges of several families.
    """
    run = verdicts.run
    tested, judges = tested_members(run), list(map(member, judges_of(run)))
    made = [(role, member(endpoint)) for role, endpoint in makers(run.release)]
    kin = find_kin([*(("judge", judge) for judge in judges), *made], tested)
    if not run.panel or not has_preferences(kin, judges):
        return SelfPreference(kin, ())
    protocol = registry.protocol(run.release.benchmark)
    return SelfPreference(kin, preferences(verdicts.table, protocol, verdicts.votes, kin, judges, tested))


def makers(release: Release) -> list[tuple[str, Endpoint]]:
    """(role, endpoint) of the models that helped to make the samples of a release, in any role."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    roles = BatchRole.objects.filter(batch__in=batches).select_related("endpoint").order_by("role", "endpoint")
    return list(dict.fromkeys((row.role, row.endpoint) for row in roles))


def judged_counts(verdicts: RunVerdicts) -> Counts:
    """The counts of each model, over the verdicts in the protocol's first rate."""
    protocol = registry.protocol(verdicts.run.release.benchmark)
    return counts_against(verdicts.table, protocol.rates[0], protocol.failing_verdicts)
