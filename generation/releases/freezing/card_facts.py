"""What the data card says of the making and the review of a release, kept with it so that it cannot drift."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import F, Sum

from generation.models import BatchRole, SampleVersion
from generation.releases.freezing.content import CHUNK
from review.access.visibility import counted_reviews
from review.models import ActiveInterval, User


def card_facts(ids: Sequence[int]) -> dict[str, Any]:
    """Models by role, prompts, who reviewed and for how long, how many samples are a later version than the first."""
    prompts: Counter[str] = Counter()
    batches: set[int] = set()
    physicians: set[int] = set()
    seconds, reviews, regenerated = 0.0, 0, 0
    for start in range(0, len(ids), CHUNK):
        versions = SampleVersion.objects.filter(pk__in=ids[start : start + CHUNK]).order_by()
        for prompt, number, batch in versions.values_list("prompt", "number", "sample__batch"):
            prompts[prompt] += 1
            regenerated += number > 1
            batches.add(batch)
        cases = versions.values("case")
        given = counted_reviews().filter(case__in=cases).order_by()
        physicians.update(given.values_list("physician", flat=True))
        reviews += given.count()
        worked = ActiveInterval.objects.filter(assignment__case__in=cases)
        total = worked.aggregate(total=Sum(F("ended_at") - F("began_at")))["total"]
        seconds += total.total_seconds() if total else 0.0
    roles = BatchRole.objects.filter(batch__in=batches).order_by("role", "endpoint__name")
    models: dict[str, list[str]] = {}
    for role, model, name in roles.values_list("role", "endpoint__model", "endpoint__name").distinct():
        models.setdefault(role, []).append(f"{model} ({name})")
    people = list(User.objects.filter(pk__in=physicians).values_list("specialty", "hospital", "languages"))
    return {
        "models": models,
        "prompts": dict(sorted(prompts.items())),
        "regenerated": regenerated,
        "reviews": reviews,
        "hours": round(seconds / 3600, 1),
        "specialties": dict(sorted(Counter(specialty for specialty, _where, _spoken in people).items())),
        "hospitals": len({hospital for _what, hospital, _spoken in people if hospital}),
        "languages": dict(sorted(Counter(code for *_about, spoken in people for code in spoken).items())),
    }
