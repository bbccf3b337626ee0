"""Facts for the data card on how a release was made and reviewed.

They are stored with the release so that they cannot drift.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from django.db.models import Count, F, Sum

from generation.batches.queries import analysed_drafts, shared_roles
from generation.models import Batch, BatchRole, PromptSet, SampleVersion
from generation.recipes import registry
from generation.releases.freezing.composition import APPROVED_SINCE, EASY, EXCLUSIONS, Composition, versions_with_reason
from generation.releases.freezing.configured import NOT_DRAWN
from generation.releases.freezing.content import CHUNK, ReleaseTotals
from generation.samples import funnel
from generation.samples.funnel import FunnelReport
from generation.samples.validity import validity
from review.models import ActiveInterval, Case, User
from review.rules.state_machine import Ground

COUNTED = 3  # times at most


def funnel_of(benchmark: str, composition: Composition, samples: int, easy: int = 0) -> FunnelReport:
    """The way of the release's batches from drawn records to the `samples` that are in it.

    `easy`: samples that the filter left out.

    Counted again if decisions arrive between two of its queries, so that it does not add up.
    """
    for _time in range(COUNTED):
        report = _count_funnel(benchmark, composition, samples, easy)
        if report.adds_up:
            return report
    return _count_funnel(benchmark, composition, samples, easy)


def _count_funnel(benchmark: str, composition: Composition, samples: int, easy: int) -> FunnelReport:
    scope = composition.batches or tuple(Batch.objects.filter(benchmark=benchmark).values_list("pk", flat=True))
    approved: Any = versions_with_reason(benchmark, composition).filter(
        status=SampleVersion.Status.APPROVED, sample__batch__in=scope
    )
    left_out = approved.exclude(reason="").order_by().values_list("reason").annotate(n=Count("pk"))
    counts: dict[str, int] = dict(left_out)
    report = funnel.funnel(benchmark, scope)
    if easy:
        counts[EASY] = easy
    # A configuration may draw some only; without one, these were approved while others were read.
    rest = APPROVED_SINCE
    if composition.configuration:
        rest = NOT_DRAWN
    counts[rest] = report.whole.stages[-1].count - sum(counts.values()) - samples
    in_words = {str(EXCLUSIONS.get(reason, reason)): n for reason, n in counts.items()}
    return funnel.released(report, samples, in_words)


def card_facts(benchmark: str, totals: ReleaseTotals, cases: Sequence[int]) -> dict[str, Any]:
    """Collect the data card's facts.

    These are the models by role, models in roles that should be apart, the roles by model family,
    the prompts and a team's own sets of them, who reviewed and for how long, in how many samples
    the policy had senior physicians decide, the number of regenerated samples, the position of the
    first sample reviewed with each version of the form, how many samples of these batches
    physicians found valid, and what the recipe counts over all their drafts.
    """
    seconds, senior_decided = 0.0, 0
    for start in range(0, len(cases), CHUNK):
        intervals = ActiveInterval.objects.filter(assignment__case__in=cases[start : start + CHUNK])
        total = intervals.aggregate(total=Sum(F("ended_at") - F("began_at")))["total"]
        if total:
            seconds += total.total_seconds()
        decided = Case.objects.filter(pk__in=cases[start : start + CHUNK], ground=Ground.ADJUDICATED)
        senior_decided += decided.filter(spec__policy__senior_decides=True).count()
    batches = Batch.objects.filter(pk__in=totals.batches)
    roles = BatchRole.objects.filter(batch__in=totals.batches).order_by("role", "endpoint__name")
    models: dict[str, list[str]] = {}
    families: dict[str, list[str]] = {}
    bindings = [(bound.role, bound.endpoint) for bound in roles.select_related("endpoint")]
    for role, endpoint in dict.fromkeys(bindings):
        models.setdefault(role, []).append(f"{endpoint.model} ({endpoint.name})")
        if role not in families.setdefault(endpoint.model_family, []):
            families[endpoint.model_family].append(role)
    one_model: set[tuple[str, str, str]] = set()
    for batch in batches:
        one_model.update(shared_roles(batch))
    versions = SampleVersion.objects.filter(sample__benchmark=benchmark, sample__batch__in=totals.batches)
    specialties: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    hospitals: set[str] = set()
    people = User.objects.filter(pk__in=totals.reviewers)
    for specialty, hospital, spoken in people.values_list("specialty", "hospital", "languages"):
        specialties[specialty] += 1
        languages.update(spoken)
        if hospital:
            hospitals.add(hospital)
    prompt_sets = {str(row): row.digest for row in PromptSet.objects.filter(jobs__in=totals.batches)}
    judgments = [asdict(line) for line in validity(benchmark, versions)]
    return {
        "models": models,
        "one_model": list(map(list, sorted(one_model))),
        "families": dict(sorted(families.items())),
        "prompts": dict(sorted(totals.prompts.items())),
        "prompt_sets": prompt_sets,
        "regenerated": totals.regenerated,
        "forms": sorted(totals.forms.values()),
        "reviews": totals.reviews,
        "hours": round(seconds / 3600, 1),
        "specialties": dict(sorted(specialties.items())),
        "senior_decided": senior_decided,
        "hospitals": len(hospitals),
        "draft_shares": _draft_shares(benchmark, batches),
        "judgments": judgments,
        "languages": dict(sorted(languages.items())),
    }


def _draft_shares(benchmark: str, batches: Iterable[Batch]) -> Mapping[str, Mapping[str, tuple[int, int]]]:
    count = registry.recipe(benchmark).shares
    if count is None:
        return {}
    return count(chain.from_iterable(analysed_drafts(batch) for batch in batches))
