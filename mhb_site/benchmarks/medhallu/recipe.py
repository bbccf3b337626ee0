"""MedHallu's recipe: hallucinated answers to PubMedQA questions, graded by models fooled.

Records of kind `qa` go through up to five tries (MHU-3 to MHU-6), or through candidates that are
clustered (MHU-8). Records of kind `qa-pair` were published by others and are used unchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.recipe import Draft, Dropped, ModelRole, Models, NewRubric, NewSample, Recipe, Step
from mhb_site.benchmarks.medhallu import attempt, candidates, clusters, lineage, mesh, presets, similarity, votes
from mhb_site.benchmarks.medhallu.candidates import SETS, prompt_of
from mhb_site.benchmarks.medhallu.presets import MAX_TRIES, PRESETS

GENERATED, PUBLISHED = "qa", "qa-pair"

# Tries per record in the estimate of a launch: the average, not the maximum.
ESTIMATED_TRIES = 2
CRITERION = "Says whether the answer shown is hallucinated."


# -------------------------------------------------------------------------------------------- steps


def _is_generated(draft: Draft) -> bool:
    return bool(draft.record.content["kind"] == GENERATED)


def _is_clustered(draft: Draft) -> bool:
    return _is_generated(draft) and presets.settings(draft)["candidates"] > 0


def _all_candidates(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [candidate for attempt_data in data.get("tries", ()) for candidate in attempt_data["candidates"]]


def _needs_try(draft: Draft, *, number: int) -> bool:
    if not _is_generated(draft) or _is_clustered(draft) or number > presets.settings(draft)["tries"]:
        return False
    return not any(candidate["qualified"] for candidate in _all_candidates(draft.data))


async def _run_try(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    result = await attempt.run_attempt(draft, models, number)
    return [replace(draft, data={**draft.data, "tries": [*draft.data.get("tries", ()), result]})]


def _try_prompts(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    if number > ESTIMATED_TRIES:
        return ()
    settings = presets.settings(draft)
    judging_prompts = [(role, prompt_of(draft, "vote").label) for role in votes.VOTERS]
    if settings["entailment"]:
        judging_prompts += [("entailment", prompt_of(draft, "entail").label)] * 2
    first_prompt = prompt_of(draft, "generate" if number == 1 or not settings["feedback"] else "regenerate")
    prompts = [("generator", first_prompt.label), *judging_prompts]
    for _rewrite in range(settings["rewrites"]):
        prompts += [("critic", prompt_of(draft, name).label) for name in ("critique", "rewrite")] * settings["steps"]
        if settings["regenerate"]:
            prompts.append(("generator", prompt_of(draft, "regenerate").label))
        prompts += judging_prompts
    if settings["feedback"] and number < ESTIMATED_TRIES:
        prompts.append(("critic", prompt_of(draft, "critique").label))  # feedback for the next try
    return prompts


TRIES = tuple(
    Step(
        f"try_{number}",
        partial(_run_try, number=number),
        partial(_needs_try, number=number),
        partial(_try_prompts, number=number),
    )
    for number in range(1, MAX_TRIES + 1)
)


async def _generate_candidates(draft: Draft, models: Models) -> Sequence[Draft]:
    generated, broken = await clusters.generate_candidates(draft, models)
    return [replace(draft, data={**draft.data, "made": generated, "broken": broken})]


async def _collect_votes(draft: Draft, models: Models) -> Sequence[Draft]:
    return [
        replace(draft, data={**draft.data, "made": await clusters.collect_votes(draft, models, draft.data["made"])})
    ]


async def _cluster_candidates(draft: Draft, models: Models) -> Sequence[Draft]:
    kept_data = {name: value for name, value in draft.data.items() if name not in ("made", "broken")}
    measured, found_clusters = await clusters.cluster_candidates(draft, models, draft.data["made"])
    tries = [{"number": 1, "candidates": measured, "feedback": [], "broken": draft.data.get("broken", "")}]
    return [replace(draft, data={**kept_data, "tries": tries, "clusters": found_clusters})]


def _candidate_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    return [("generator", prompt_of(draft, "generate").label)] * int(presets.settings(draft)["candidates"])


def _vote_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    label = prompt_of(draft, "vote").label
    return [(role, label) for role in votes.VOTERS] * int(presets.settings(draft)["candidates"])


def _cluster_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    # An estimate: both directions with the true answer, and with one other cluster's first member.
    return [("entailment", prompt_of(draft, "entail").label)] * 4 * int(presets.settings(draft)["candidates"])


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:
    """Choose the candidate that becomes the sample: one that qualified, else the fallback.

    The fallback is the candidate nearest to the true answer. Raises Dropped if there is none.
    """
    settings = presets.settings(draft)
    tries = draft.data.get("tries", ())
    all_candidates = _all_candidates(draft.data)
    if _is_clustered(draft):
        chosen = clusters.best_candidate(all_candidates)
    else:
        chosen = next((candidate for candidate in all_candidates if candidate["qualified"]), None)
    final: dict[str, Any] = {"tries": len(tries), "fallback": chosen is None}
    if chosen is None:
        # A fallback is marked easy, which would be unfounded for a candidate with unreadable votes.
        readable = [candidate for candidate in all_candidates if votes.all_readable(candidate["votes"])]
        eligible = [
            candidate for candidate in readable if settings["fallback_entailed"] or candidate["entailed"] is False
        ]
        if not eligible:
            raise Dropped(_drop_reason(all_candidates, tries))
        method, rows = await similarity.vectors(
            models, [draft.record.content["answer"], *(candidate["answer"] for candidate in eligible)]
        )
        near = {
            candidate["number"]: similarity.cosine(row, rows[0])
            for candidate, row in zip(eligible, rows[1:], strict=True)
        }
        chosen = max(eligible, key=lambda candidate: near[candidate["number"]])
        final |= {"similarity": method, "near": near}
    final |= {
        "number": chosen["number"],
        "category": chosen["category"],
        "difficulty": "easy" if final["fallback"] else votes.difficulty(chosen["fooled"], len(chosen["votes"])),
        "flags": list(chosen["flags"]),
    }
    return [replace(draft, data={**draft.data, "final": final})]


def _drop_reason(all_candidates: Sequence[Mapping[str, Any]], tries: Sequence[Mapping[str, Any]]) -> str:
    """Why no candidate can become the sample: faults of candidates, then unusable replies."""
    unread_roles = {vote["role"] for candidate in all_candidates for vote in candidate["votes"] if vote["broken"]}
    readable = [candidate for candidate in all_candidates if votes.all_readable(candidate["votes"])]
    unjudged = sum(candidate["entailed"] is None for candidate in readable)
    same_meaning = len(readable) - unjudged
    counts = (
        (len(all_candidates) - len(readable), f"votes could not be read ({', '.join(sorted(unread_roles))})"),
        (unjudged, "entailment could not be judged"),
        (same_meaning, "the answer says what the true answer says"),
    )
    reasons = [f"{count} of {len(all_candidates)} candidates: {reason}." for count, reason in counts if count]
    reasons += [attempt_data["broken"] for attempt_data in tries if attempt_data["broken"]]
    return " ".join(reasons)


async def use_published(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Use a published pair unchanged; difficulty and category are kept as for generated samples."""
    content = draft.record.content
    final = {"category": content["category"], "difficulty": content["difficulty"], "published": True}
    return [replace(draft, data={"final": final})]


# ------------------------------------------------------------------------------------------- sample


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    Content: {question, knowledge: [passages], truth, hallucinated, justification, category,
    difficulty, tries, fallback, flags ("length"), pmid, mesh: [headings], branches: [letters of
    MeSH]}. Its one rubric, R1, is tied to the category.
    """
    content, final = draft.record.content, draft.data["final"]
    if content["kind"] == PUBLISHED:
        [article, *_others] = draft.record.joined.get("pubmedqa") or [{}]
        chosen: Mapping[str, Any] = {"answer": content["hallucinated"], "justification": "", "prompt": ""}
        knowledge = content["knowledge"]
    else:
        article = content
        chosen = next(candidate for candidate in _all_candidates(draft.data) if candidate["number"] == final["number"])
        knowledge = content["contexts"]
    headings = list(article.get("mesh", ()))
    return NewSample(
        task=_("detection"),
        title=draft.record.title,
        language=draft.record.language,
        content={
            "question": content["question"],
            "knowledge": list(knowledge),
            "truth": content["answer"],
            "hallucinated": chosen["answer"],
            "justification": chosen["justification"],
            "category": final["category"],
            "difficulty": final["difficulty"],
            "tries": final.get("tries", 0),
            "fallback": final.get("fallback", False),
            "flags": list(final.get("flags", ())),
            "pmid": str(article.get("pmid", "")),
            "mesh": headings,
            "branches": mesh.branches(headings, draft.record.joined.get("mesh", ())),
        },
        rubrics=(NewRubric("R1", CRITERION, (final["category"],)),),
        prompt=chosen["prompt"],
        provenance=_data_card(draft),
    )


def _data_card(draft: Draft) -> dict[str, str]:
    """Entries of the data card: how the sample was made."""
    settings, data = presets.settings(draft), draft.data
    sampled = candidates.draw_fraction("review", draft.record.external_id) < settings["review_share"]
    entries = {
        _("review"): _("sampled") if sampled else _("not sampled"),
        _("reviewers"): settings["reviewers"] if sampled else "none",
    }
    if "published" in data["final"]:
        return {**entries, _("origin"): _("published")}
    entries |= {_("origin"): _("made here"), _("preset"): presets.name_of(draft)}
    judges = {candidate["entailment"]["by"] for candidate in _all_candidates(data) if candidate["entailment"]}
    entries[_("entailment")] = ", ".join(sorted(judges)) or "none"
    method = data["clusters"]["similarity"] if "clusters" in data else data["final"].get("similarity")
    return {**entries, _("similarity"): method} if method else entries


def text_to_compare(new_sample: NewSample) -> str:
    """The text that no two samples may share."""
    return f"{new_sample.content['question']}\n{new_sample.content['hallucinated']}"


_GENERATED_KINDS = frozenset({GENERATED})

RECIPE = Recipe(
    label=_("MedHallu: hallucinated answers"),
    intended=(
        "For measuring how well models detect hallucinated answers to questions about biomedical "
        "articles. Half of the answers are wrong on purpose."
    ),
    kinds=frozenset({GENERATED, PUBLISHED}),
    roles=read_declared(ModelRole, __file__, "roles.json"),
    steps=(
        *TRIES,
        Step("candidates", _generate_candidates, _is_clustered, _candidate_prompts),
        Step("votes", _collect_votes, _is_clustered, _vote_prompts),
        Step("clusters", _cluster_candidates, _is_clustered, _cluster_prompts),
        Step("settle", settle, _is_generated),
        Step("use_published", use_published, lambda draft: not _is_generated(draft)),
    ),
    sample=sample,
    max_versions=3,
    compared=text_to_compare,
    prompt_sets=tuple(name for name in SETS if name),
    presets=PRESETS,
    choices={"reviewers": ("one", "two"), "length": (None,), "vote_temperature": (None,), "vote_max_tokens": (None,)},
    lineage=lineage.lineage,
    analysis=lineage.analysis,
)
