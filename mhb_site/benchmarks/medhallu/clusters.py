"""Clusters of many candidates for one question and the true answer, by meaning.

Two answers mean the same if each follows from the other: bidirectional entailment at tau. The
clustering follows Farquhar et al. 2024 (semantic entropy): an answer joins the first cluster whose
first member means the same, else it starts a new one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from generation.llm.errors import BrokenReply
from generation.recipes import text_similarity
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.medhallu import attempt, candidates, presets, similarity, votes
from mhb_site.benchmarks.medhallu.concurrency import gather_all
from mhb_site.benchmarks.medhallu.entailment import entailment_judge, score_both_ways

ROUGE = ("rouge1", "rouge2", "rougeL")
MEASURES = ("cosine", "euclidean", *text_similarity.rouge_names(ROUGE))


async def generate_candidates(draft: Draft, models: Models) -> Sequence[Draft]:
    """Generate as many candidates as the settings ask for.

    `made` are the candidates without unusable replies; `broken` says why the last unusable reply
    was refused ('' if none was).
    """
    count = presets.settings(draft)["candidates"]
    results = await gather_all(*(_generate_candidate(draft, models, number) for number in range(1, count + 1)))
    made, refusal = [], ""
    for result in results:
        if isinstance(result, str):
            refusal = result
        else:
            made.append(result)
    return [draft.extended(made=made, broken=refusal)]


async def _generate_candidate(draft: Draft, models: Models, number: int) -> dict[str, Any] | str:
    """Candidate `number`, or the reason if neither of two replies can be used."""
    try:
        return {**await candidates.generate(draft, models, number), "number": f"{number}.1"}
    except BrokenReply as error:
        return error.detail


async def collect_votes(draft: Draft, models: Models) -> Sequence[Draft]:
    """Add their votes to the candidates."""
    made = await gather_all(*(_with_votes(draft, models, candidate) for candidate in draft.data["made"]))
    return [draft.extended(made=made)]


async def _with_votes(draft: Draft, models: Models, candidate: Mapping[str, Any]) -> dict[str, Any]:
    return {**candidate, "votes": await votes.collect_votes(draft, models, candidate, candidate["number"])}


async def cluster_candidates(draft: Draft, models: Models) -> Sequence[Draft]:
    """Cluster the candidates with the true answer.

    They become a single try, with entailment and measures. `clusters` is ``{by, similarity,
    clusters: [{members, truth, share, ...}]}``. Of a cluster, `members` are the numbers of its
    candidates, `truth` says whether the true answer is among them, and `share` is the share of its
    candidates that fool as many voters as the settings require; then the means of `MEASURES` to the
    truth.
    """
    settings, made = presets.settings(draft), draft.data["made"]
    truth = presets.truth_of(draft)
    nli = entailment_judge(draft, models)
    scores: dict[int, dict[str, Any]] = {}
    texts = [truth, *(candidate["answer"] for candidate in made)]

    async def mean_the_same(first: int, other: int) -> bool:
        try:
            pair_scores = await score_both_ways(nli, texts[other], texts[first])
        except BrokenReply:
            return False
        if first == 0:  # the true answer starts the first cluster, so every candidate is compared with it
            scores[other] = {"by": nli.name, **pair_scores}
        return bool(pair_scores["least"] >= settings["tau"])

    groups = await group_by_meaning(len(texts), mean_the_same)
    method, rows = await similarity.vectors(models, texts)
    measured: list[dict[str, Any]] = []
    for index, candidate in enumerate(made, 1):
        measures = {
            "cosine": similarity.cosine(rows[index], rows[0]),
            "euclidean": similarity.euclidean(rows[index], rows[0]),
            **text_similarity.rouge(candidate["answer"], truth, ROUGE),
        }
        measured.append({**attempt.assess_candidate(settings, candidate, scores.get(index)), "near": measures})
    descriptions = [_describe_cluster(group, measured, settings) for group in groups]
    data = dict(draft.data)
    del data["made"]
    broken = data.pop("broken", "")
    data["tries"] = [{"number": 1, "candidates": measured, "feedback": [], "broken": broken}]
    data["clusters"] = {"by": nli.name, "similarity": method, "clusters": descriptions}
    return [replace(draft, data=data)]


async def group_by_meaning(count: int, mean_the_same: Callable[[int, int], Awaitable[bool]]) -> list[list[int]]:
    """The numbers 0 to `count` - 1 in clusters.

    A number joins the first cluster for which ``mean_the_same(first member, number)`` is true.
    """
    groups: list[list[int]] = []
    for number in range(count):
        for group in groups:
            if await mean_the_same(group[0], number):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _describe_cluster(
    group: Sequence[int], measured: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> dict[str, Any]:
    members = [measured[number - 1] for number in group if number]
    description: dict[str, Any] = {"members": [member["number"] for member in members], "truth": 0 in group}
    if members:
        fooling = [member["fooled"] >= attempt.fooled_to_qualify(settings, member) for member in members]
        description["share"] = round(fmean(fooling), 6)
        for name in MEASURES:
            description[name] = round(fmean(member["near"][name] for member in members), 6)
    return description
