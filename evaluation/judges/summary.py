"""The part of a report on its judges, as JSON: agreement, variance, self-preference, validation."""

from typing import Any

from evaluation import registry
from evaluation.judges.numbers import agreement, families, values
from evaluation.judges.numbers.agreement import PanelReport
from evaluation.judges.numbers.families import Counts, Member, SelfPreference
from evaluation.judges.numbers.values import SIMULATED_NOTICE as SIMULATED_NOTICE
from evaluation.judges.numbers.variance import ModelVariance, variances
from evaluation.judges.queries import validation_report
from evaluation.models import Judgment, Run
from evaluation.numbers.frame import counts_against
from evaluation.protocol import UNDECIDED, Protocol
from evaluation.runs.plan import outcomes_of
from evaluation.runs.queries import endpoints_of, judges_of, models_of
from evaluation.runs.rows.result_cache import cached, key_of
from evaluation.runs.selecting_models import selecting_models
from evaluation.runs.verdicts import RunVerdicts
from generation.models import BatchRole, Endpoint, Release, ReleasedSample
from generation.samples import errata


def as_dict(run: Run, judged: Counts | None = None) -> dict[str, Any]:
    """The keys of a report that concern its judges and the selection of samples.

    `judges` is None without a panel, `validation` until it has started.
    `judged`: (failed, judged) of each model, if these counts are known already.
    """
    names = []
    if run.panel or run.answers_each > 1:
        names = sorted(endpoints_of(run).values_list("name", flat=True))
    verdicts = RunVerdicts(run)
    panel_key = repeats_key = ""  # not cached: nothing is counted
    if run.panel:
        panel_key = key_of(run, "judges", names)
    if names:
        repeats_key = key_of(run, "repeats", names)
    return {
        "judges": cached(panel_key, lambda: judges(verdicts), run),
        "repeats": cached(repeats_key, lambda: repeats(verdicts), run),
        "self_preference": preference(verdicts, judged),
        "selection": list(selecting_models(run)),
        "validation": validation(run),
    }


def judges(verdicts: RunVerdicts) -> dict[str, Any] | None:
    """The panel and the agreement of its judges; None if one judge decided once."""
    report = panel_report(verdicts)
    if report is None:
        return None
    return values.panel(report)


def repeats(verdicts: RunVerdicts) -> dict[str, Any]:
    """Answers per question, judgments per criterion, and the components of the variance.

    Without components unless the run has repeated answers or a panel.
    """
    run, protocol = verdicts.run, registry.protocol(verdicts.run.release.benchmark)
    models: tuple[ModelVariance, ...] = ()
    if run.answers_each > 1 or run.panel:
        votes = None
        if run.panel:
            votes = verdicts.votes
        models = variances(verdicts.frame, protocol, votes)
    return values.repeats(run.answers_each, run.judgments_each, models)


def preference(verdicts: RunVerdicts, judged: Counts | None = None) -> dict[str, Any]:
    """Endpoints of a tested model's family, and how much judges favour their own family.

    `judged`: (failed, judged) of each model, if these counts are known already.
    """
    result = self_preference(verdicts)
    counts: Counts = {}
    if result.kin:
        counts = judged or judged_counts(verdicts)
    return values.preference(result, tested_members(verdicts.run), counts)


def validation(run: Run) -> dict[str, Any] | None:
    """The judge against physicians; None if there is no validation."""
    report = validation_report(run)
    if report is None:
        return None
    return values.validation(report)


def panel_report(verdicts: RunVerdicts) -> PanelReport | None:
    """The agreement within the panel of a run; None if one judge decided once."""
    run = verdicts.run
    if not run.panel:
        return None
    protocol = registry.protocol(run.release.benchmark)
    return agreement.panel_report(
        run.panel,
        [judge.name for judge in judges_of(run)],
        run.judgments_each,
        verdicts.frame,
        verdicts_given(run, protocol),
        verdicts.votes,
        outcomes_of(run, protocol)[UNDECIDED],
    )


def verdicts_given(run: Run, protocol: Protocol) -> tuple[str, ...]:
    """The verdicts that the judges of a run may give on the criteria put to them."""
    standing = errata.standing(run.release)
    rubrics = Judgment.objects.filter(run=run, votes__isnull=False, rubric__sample__in=standing).order_by()
    keys = rubrics.values_list("rubric__key", flat=True).distinct()
    return protocol.verdicts_given(keys, str(run.plan.get("preset", "")))


def member(endpoint: Endpoint) -> Member:
    """The endpoint with the family of its model."""
    return Member(endpoint.name, endpoint.model_family)


def tested_members(run: Run) -> list[Member]:
    """The models under test."""
    return [member(endpoint) for endpoint in models_of(run)]


def self_preference(verdicts: RunVerdicts) -> SelfPreference:
    """The endpoints that share a family with a tested model, and how much such judges favour it."""
    run = verdicts.run
    return families.self_preference(
        lambda: (verdicts.frame, verdicts.votes),
        registry.protocol(run.release.benchmark),
        has_panel=bool(run.panel),
        judges=list(map(member, judges_of(run))),
        makers=[(role, member(endpoint)) for role, endpoint in makers(run.release)],
        tested=tested_members(run),
    )


def makers(release: Release) -> list[tuple[str, Endpoint]]:
    """(role, endpoint) of the models that helped to make the samples of a release, in any role."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    roles = BatchRole.objects.filter(batch__in=batches).select_related("endpoint").order_by("role", "endpoint")
    return list(dict.fromkeys([(row.role, row.endpoint) for row in roles]))


def judged_counts(verdicts: RunVerdicts) -> Counts:
    """The counts of each model, over the verdicts in the protocol's first rate."""
    protocol = registry.protocol(verdicts.run.release.benchmark)
    return counts_against(verdicts.frame, protocol.rates[0], protocol.failing_verdicts)
