"""One attempt (a "try" in settings and stored data) at a qualifying candidate.

A candidate is judged by the voters and by entailment, and rewritten if it fails.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from generation.llm.errors import BrokenReply
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.medhallu import candidates, presets, votes
from mhb_site.benchmarks.medhallu.entailment import entailment_judge, score_both_ways

MAJORITY = "majority"  # of the voters


async def run_attempt(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    """Make and judge the candidates of one try.

    A model whose replies cannot be used ends the try; the next one follows. A try is {number,
    candidates, feedback: [{of, wording, structure, advice}], broken}. `broken` says why a reply
    could not be used, or is empty. A candidate is what `candidates.generate` returns, with {number:
    "3.1", votes, fooled, entailment, entailed, qualified}.
    """
    result: dict[str, Any] = {"number": number, "candidates": [], "feedback": [], "broken": ""}
    try:
        await _make_candidates(draft, models, result)
    except BrokenReply as error:
        result["broken"] = error.detail
    return [draft.extended(tries=[*draft.data.get("tries", ()), result])]


async def _make_candidates(draft: Draft, models: Models, result: dict[str, Any]) -> None:
    settings, number = presets.settings(draft), result["number"]
    last = None
    if settings["feedback"]:
        last = _last_candidate(draft)
    candidate: Mapping[str, Any] = await candidates.generate(draft, models, number, last)
    for place in range(1, settings["rewrites"] + 2):
        assessed = await judge_candidate(draft, models, {**candidate, "number": f"{number}.{place}"})
        result["candidates"].append(assessed)
        if assessed["qualified"]:
            return
        if place <= settings["rewrites"]:
            candidate = await _rewrite(draft, models, assessed, result)
    # The next try learns from what gave the last candidate away.
    if settings["feedback"] and number < settings["tries"]:
        feedback = await candidates.criticise(draft, models, assessed, candidates.result_of(assessed))
        result["feedback"].append({"of": assessed["number"], **feedback})


async def judge_candidate(draft: Draft, models: Models, candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The candidate with its votes and entailment scores, and whether it qualifies."""
    settings = presets.settings(draft)
    ballots = await votes.collect_votes(draft, models, candidate, candidate["number"])
    entailment_scores: Mapping[str, Any] | None = None
    if settings["entailment"]:
        nli = entailment_judge(draft, models)
        with suppress(BrokenReply):  # without a score it is not known to be wrong, so it cannot qualify
            entailment_scores = await score_both_ways(nli, candidate["answer"], presets.truth_of(draft))
            entailment_scores = {"by": nli.name, **entailment_scores}
    return assess_candidate(settings, {**candidate, "votes": ballots}, entailment_scores)


def assess_candidate(
    settings: Mapping[str, Any], candidate: Mapping[str, Any], entailment_scores: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Decide whether a candidate qualifies.

    The rule: all votes can be read, enough voters are fooled, and the smaller entailment score is
    below tau. `fooled` counts readable votes. `entailed` is None if entailment was required but not
    obtained.
    """
    fooled = sum(vote["fooled"] for vote in candidate["votes"])
    fools_enough = votes.all_readable(candidate["votes"]) and fooled >= fooled_to_qualify(settings, candidate)
    entailed = None
    if entailment_scores:
        entailed = entailment_scores["least"] >= settings["tau"]
    elif not settings["entailment"]:
        entailed = False
    return {
        **candidate,
        "fooled": fooled,
        "entailment": entailment_scores,
        "entailed": entailed,
        "qualified": fools_enough and entailed is False,
    }


def fooled_to_qualify(settings: Mapping[str, Any], candidate: Mapping[str, Any]) -> int:
    """How many of its voters a candidate has to fool."""
    if settings["fooled"] == MAJORITY:
        return len(candidate["votes"]) // 2 + 1
    return int(settings["fooled"])


async def _rewrite(
    draft: Draft, models: Models, failed: Mapping[str, Any], attempt_result: dict[str, Any]
) -> Mapping[str, Any]:
    """Rewrite a failed candidate.

    The settings say how many steps of critique and revision it takes, and whether the generator
    then writes the final version.
    """
    settings = presets.settings(draft)
    result = candidates.result_of(failed)
    revised: Mapping[str, Any] = failed
    feedback: Mapping[str, str] = {}
    for _step in range(settings["steps"]):
        feedback = await candidates.criticise(draft, models, revised, result)
        attempt_result["feedback"].append({"of": revised["number"], **feedback})
        revised = {**await candidates.rewrite(draft, models, revised, feedback), "number": failed["number"]}
    if settings["regenerate"]:
        last = {"candidate": revised, "result": result, "feedback": feedback}
        revised = await candidates.generate(draft, models, attempt_result["number"], last)
    return revised


def _last_candidate(draft: Draft) -> dict[str, Any] | None:
    """The last candidate so far with its result and the last feedback; None before the first."""
    made = candidates.all_of(draft.data)
    if not made:
        return None
    feedback = {}
    for attempt in draft.data["tries"]:
        for entry in attempt["feedback"]:
            feedback = {name: entry[name] for name in ("wording", "structure", "advice")}
    return {"candidate": made[-1], "result": candidates.result_of(made[-1]), "feedback": feedback}
