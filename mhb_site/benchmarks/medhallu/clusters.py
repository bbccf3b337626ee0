"""Many candidates of one question, clustered with the true answer by what they mean (MHU-8).

Two answers mean the same where each follows from the other: bidirectional entailment at tau. The clustering is Farquhar et al.
2024's (semantic entropy): an answer joins the first cluster whose first member it means the same as, else it opens one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from generation.llm.errors import BrokenReply
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.medhallu import attempt, candidates, presets, similarity, votes
from mhb_site.benchmarks.medhallu.concurrency import together
from mhb_site.benchmarks.medhallu.entailment import both_ways, entailer

MEASURES = ("cosine", "euclidean", "rouge1", "rouge2", "rougeL")


async def make(draft: Draft, models: Models) -> tuple[list[dict[str, Any]], str]:
    """As many candidates as the settings ask for, less those whose replies were of no use; and why the last of them was not."""
    wanted = presets.settings(draft)["candidates"]
    found = await together(*(_made(draft, models, number) for number in range(1, wanted + 1)))
    refused = [each for each in found if isinstance(each, str)]
    return [each for each in found if not isinstance(each, str)], refused[-1] if refused else ""


async def _made(draft: Draft, models: Models, number: int) -> dict[str, Any] | str:
    """The candidate of this number; why there is none where neither of two replies can be used."""
    try:
        return {**await candidates.generate(draft, models, number), "number": f"{number}.1"}
    except BrokenReply as error:
        return error.detail


async def vote(draft: Draft, models: Models, made: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The candidates with their votes."""
    found = await together(*(votes.voted(draft, models, each, each["number"]) for each in made))
    return [{**each, "votes": ballots} for each, ballots in zip(made, found, strict=True)]


async def cluster(
    draft: Draft, models: Models, voted: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The candidates with entailment and measures; and ``{by, similarity, clusters: [{members, truth, share, ...}]}``.

    A cluster: `members` are the numbers of its candidates, `truth` whether the true answer is among them, `share` that of its
    candidates which fool as many voters as the settings want, and the means of `MEASURES` to the true answer.
    """
    settings = presets.settings(draft)
    truth = draft.record.content["answer"]
    nli = entailer(draft, models)
    scores: dict[int, dict[str, float]] = {}
    texts = [truth, *(each["answer"] for each in voted)]

    async def same(first: int, other: int) -> bool:
        try:
            found = await both_ways(nli, texts[other], texts[first])
        except BrokenReply:
            return False
        if first == 0:  # the true answer opens the first cluster, so that every candidate meets it
            scores[other] = found
        return bool(found["least"] >= settings["tau"])

    groups = await grouped(len(texts), same)
    how, rows = await similarity.vectors(models, texts)
    measured: list[dict[str, Any]] = []
    for at, each in enumerate(voted, 1):
        found = attempt.finding(settings, each, {"by": nli.name, **scores[at]} if at in scores else None)
        near = {
            "cosine": similarity.cosine(rows[at], rows[0]),
            "euclidean": similarity.euclidean(rows[at], rows[0]),
            **similarity.rouge(each["answer"], truth),
        }
        measured.append({**found, "near": near})
    found_clusters = [_described(group, measured, settings["fooled"]) for group in groups]
    return measured, {"by": nli.name, "similarity": how, "clusters": found_clusters}


async def grouped(count: int, same: Callable[[int, int], Awaitable[bool]]) -> list[list[int]]:
    """The numbers 0 to `count` - 1 in clusters; ``same(first member of a cluster, other)`` says whether one joins it."""
    groups: list[list[int]] = []
    for number in range(count):
        for group in groups:
            if await same(group[0], number):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _described(group: Sequence[int], measured: Sequence[Mapping[str, Any]], wanted: int) -> dict[str, Any]:
    members = [measured[number - 1] for number in group if number]
    described: dict[str, Any] = {"members": [each["number"] for each in members], "truth": 0 in group}
    if members:
        described["share"] = round(fmean(each["fooled"] >= wanted for each in members), 6)
        described |= {name: round(fmean(each["near"][name] for each in members), 6) for name in MEASURES}
    return described


def best(measured: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Of those that qualify the one that fools most voters; of several the nearest to the true answer. None: there is none."""
    able = [each for each in measured if each["qualified"]]
    return max(able, key=lambda each: (each["fooled"], each["near"]["cosine"]), default=None)
