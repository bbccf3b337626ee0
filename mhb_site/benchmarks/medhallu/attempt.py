"""One try: a new candidate is put to the vote and to entailment, and rewritten where it fails (MHU-3 to MHU-6)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from generation.llm.errors import BrokenReply
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.medhallu import candidates, presets, votes
from mhb_site.benchmarks.medhallu.entailment import both_ways, entailer


async def one_try(draft: Draft, models: Models, number: int) -> dict[str, Any]:
    """{number, candidates, feedback: [{of, wording, structure, advice}], broken: why a reply could not be used, or ''}.

    A candidate is what `candidates.generate` says, and {number: "3.1", votes, fooled, entailment, entailed, qualified}.
    A model whose replies are of no use ends the try; the next one follows.
    """
    settings = presets.settings(draft)
    tried: dict[str, Any] = {"number": number, "candidates": [], "feedback": [], "broken": ""}
    try:
        made = await candidates.generate(draft, models, number, _last(draft) if settings["feedback"] else None)
        found = await _judged(draft, models, made, f"{number}.1", tried)
        for again in range(settings["rewrites"]):
            if found["qualified"]:
                break
            rewritten = await _rewritten(draft, models, found, tried)
            found = await _judged(draft, models, rewritten, f"{number}.{again + 2}", tried)
        # What gave the last one away is what the next try learns from.
        if not found["qualified"] and settings["feedback"] and number < settings["tries"]:
            await _criticised(draft, models, found, candidates.result_of(found), tried)
    except BrokenReply as error:
        tried["broken"] = error.detail
    return tried


async def _judged(
    draft: Draft, models: Models, made: Mapping[str, Any], number: str, tried: dict[str, Any]
) -> dict[str, Any]:
    found = await judged(draft, models, {**made, "number": number})
    tried["candidates"].append(found)
    return found


async def judged(draft: Draft, models: Models, made: Mapping[str, Any]) -> dict[str, Any]:
    """A candidate with what voters and entailment say of it, and whether it qualifies."""
    settings = presets.settings(draft)
    ballots = await votes.voted(draft, models, made, made["number"])
    scores = None
    if settings["entailment"]:
        nli = entailer(draft, models)
        with suppress(BrokenReply):  # without a score it is not known to be wrong, so that it cannot qualify
            scores = {"by": nli.name, **await both_ways(nli, made["answer"], draft.record.content["answer"])}
    return finding(settings, {**made, "votes": ballots}, scores)


def finding(settings: Mapping[str, Any], voted: Mapping[str, Any], scores: Mapping[str, Any] | None) -> dict[str, Any]:
    """The rule: all votes can be read, enough voters are fooled, and the smaller score of entailment is below tau.

    `fooled` counts votes that could be read. `entailed` is None where entailment was wanted and could not be had.
    """
    fooled = sum(vote["fooled"] for vote in voted["votes"])
    entailed = (scores["least"] >= settings["tau"]) if scores else (None if settings["entailment"] else False)
    return {
        **voted,
        "fooled": fooled,
        "entailment": scores,
        "entailed": entailed,
        "qualified": votes.were_read(voted["votes"]) and fooled >= settings["fooled"] and entailed is False,
    }


async def _rewritten(
    draft: Draft, models: Models, failed: Mapping[str, Any], tried: dict[str, Any]
) -> Mapping[str, Any]:
    """The failed candidate after so many steps of critique and revision, and a last word of the generator's where it has it."""
    settings = presets.settings(draft)
    result = candidates.result_of(failed)
    revised: Mapping[str, Any] = failed
    feedback: Mapping[str, str] = {}
    for _step in range(settings["steps"]):
        feedback = await _criticised(draft, models, revised, result, tried)
        revised = {**await candidates.rewrite(draft, models, revised, feedback), "number": failed["number"]}
    if settings["regenerate"]:
        last = {"candidate": revised, "result": result, "feedback": feedback}
        revised = await candidates.generate(draft, models, tried["number"], last)
    return revised


async def _criticised(
    draft: Draft, models: Models, candidate: Mapping[str, Any], result: Mapping[str, Any], tried: dict[str, Any]
) -> dict[str, str]:
    feedback = await candidates.criticise(draft, models, candidate, result)
    tried["feedback"].append({"of": candidate["number"], **feedback})
    return feedback


def _last(draft: Draft) -> dict[str, Any] | None:
    """The last candidate of the tries so far, what became of it, and the last feedback; None before there is any."""
    made = [candidate for tried in draft.data.get("tries", ()) for candidate in tried["candidates"]]
    if not made:
        return None
    said = [each for tried in draft.data["tries"] for each in tried["feedback"]]
    feedback = {name: said[-1][name] for name in ("wording", "structure", "advice")} if said else {}
    return {"candidate": made[-1], "result": candidates.result_of(made[-1]), "feedback": feedback}
