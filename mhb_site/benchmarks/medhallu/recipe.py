"""MedHallu's recipe: hallucinated answers to PubMedQA questions, graded by models fooled.

Records of kind `qa` go through up to five tries, or through candidates that are
clustered. Records of kind `qa-pair` were published by others and are used unchanged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.labelled import LabelledAnswers
from generation.recipes.recipe import Draft, Dropped, ModelRole, Models, NewRubric, NewSample, Recipe, Step
from generation.recipes.review_sampling import draw_fraction
from mhb_site.benchmarks.medhallu import (
    attempt,
    candidates,
    clusters,
    lineage,
    mesh,
    presets,
    rewording,
    similarity,
    votes,
)
from mhb_site.benchmarks.medhallu.candidates import SETS
from mhb_site.benchmarks.medhallu.presets import MAX_TRIES, PRESETS
from mhb_site.benchmarks.medhallu.votes import VOTERS

GENERATED, PUBLISHED = "qa", "qa-pair"

# Tries per record in the estimate of a launch: the average, not the maximum.
ESTIMATED_TRIES = 2
CRITERION = "Says whether the answer shown is hallucinated."


# -------------------------------------------------------------------------------------------- steps


def _is_generated(draft: Draft) -> bool:
    return bool(draft.record.content["kind"] == GENERATED)


def _is_reworded(draft: Draft) -> bool:
    return _is_generated(draft) and rewording.is_reworded(draft)


def _is_clustered(draft: Draft) -> bool:
    return _is_generated(draft) and presets.settings(draft)["candidates"] > 0


def _needs_try(draft: Draft, *, number: int) -> bool:
    if not _is_generated(draft) or _is_clustered(draft) or number > presets.settings(draft)["tries"]:
        return False
    return not any(candidate["qualified"] for candidate in candidates.all_of(draft.data))


def _try_prompts(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    if number > ESTIMATED_TRIES:
        return ()
    settings = presets.settings(draft)
    judging = [(role, "vote") for role in VOTERS]
    if settings["entailment"]:
        judging += [("entailment", "entail")] * 2
    generating = "regenerate"
    if number == 1 or not settings["feedback"]:
        generating = "generate"
    asked = [("generator", generating), *judging]
    for _rewrite in range(settings["rewrites"]):
        asked += [("critic", "critique"), ("critic", "rewrite")] * settings["steps"]
        if settings["regenerate"]:
            asked.append(("generator", "regenerate"))
        asked += judging
    if settings["feedback"] and number < ESTIMATED_TRIES:
        asked.append(("critic", "critique"))  # feedback for the next try
    return _labels(draft, asked)


def _labels(draft: Draft, asked: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The labels of prompts that are asked, each with its role."""
    return [(role, SETS[draft.prompts][name].label) for role, name in asked]


def _try_step(number: int) -> Step:
    return Step(
        f"try_{number}",
        partial(attempt.run_attempt, number=number),
        partial(_needs_try, number=number),
        partial(_try_prompts, number=number),
    )


TRIES = tuple(_try_step(number) for number in range(1, MAX_TRIES + 1))


def _for_each_candidate(*asked: tuple[str, str]) -> Callable[[Draft], Sequence[tuple[str, str]]]:
    """What a step asks, as (role, prompt), of each of the candidates that are clustered."""

    def asks(draft: Draft) -> Sequence[tuple[str, str]]:
        return _labels(draft, asked) * int(presets.settings(draft)["candidates"])

    return asks


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:
    """Choose the candidate that becomes the sample: one that qualified, else the fallback.

    The fallback is the candidate nearest to the true answer. Raises Dropped if there is none.
    """
    qualified = [candidate for candidate in candidates.all_of(draft.data) if candidate["qualified"]]
    if _is_clustered(draft):  # the one that fools most voters, then the nearest to the true answer
        qualified.sort(key=lambda candidate: (candidate["fooled"], candidate["near"]["cosine"]), reverse=True)
    final: dict[str, Any] = {"tries": len(draft.data.get("tries", ())), "fallback": not qualified}
    if qualified:
        chosen = qualified[0]
        difficulty = votes.difficulty(chosen["fooled"], len(chosen["votes"]))
    else:
        chosen, final["similarity"], final["near"] = await _choose_fallback(draft, models)
        difficulty = "easy"
    final |= {
        "number": chosen["number"],
        "category": chosen["category"],
        "difficulty": difficulty,
        "flags": list(chosen["flags"]),
    }
    return [draft.extended(final=final)]


async def _choose_fallback(draft: Draft, models: Models) -> tuple[Mapping[str, Any], str, dict[str, float]]:
    """The fallback, how similarity is measured, and that of each eligible candidate by number."""
    all_candidates = candidates.all_of(draft.data)
    # A fallback is marked easy, which would be unfounded for a candidate with unreadable votes.
    readable = [candidate for candidate in all_candidates if votes.all_readable(candidate["votes"])]
    eligible = readable
    if not presets.settings(draft)["fallback_entailed"]:
        eligible = [candidate for candidate in readable if candidate["entailed"] is False]
    if not eligible:
        raise Dropped(_drop_reason(all_candidates, readable, draft.data.get("tries", ())))
    answers = [candidate["answer"] for candidate in eligible]
    method, (truth, *others) = await similarity.vectors(models, [presets.truth_of(draft), *answers])
    near: dict[str, float] = {}
    for candidate, row in zip(eligible, others, strict=True):
        near[candidate["number"]] = similarity.cosine(row, truth)
    return max(eligible, key=lambda candidate: near[candidate["number"]]), method, near


def _drop_reason(
    all_candidates: Sequence[Mapping[str, Any]],
    readable: Sequence[Mapping[str, Any]],
    tries: Sequence[Mapping[str, Any]],
) -> str:
    """Why no candidate can become the sample: faults of candidates, then unusable replies."""
    unread_roles = set[str]()
    for candidate in all_candidates:
        unread_roles.update(vote["role"] for vote in candidate["votes"] if vote["broken"])
    unjudged = sum(candidate["entailed"] is None for candidate in readable)
    counts = (
        (len(all_candidates) - len(readable), f"votes could not be read ({', '.join(sorted(unread_roles))})"),
        (unjudged, "entailment could not be judged"),
        (len(readable) - unjudged, "the answer says what the true answer says"),
    )
    reasons = []
    for count, reason in counts:
        if count:
            reasons.append(f"{count} of {len(all_candidates)} candidates: {reason}.")
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
    MeSH]}, and truth_source, the true answer in the words of the article, if it was reworded. Its
    one rubric, R1, is tied to the category.
    """
    content, final = draft.record.content, draft.data["final"]
    if content["kind"] == PUBLISHED:
        [article, *_others] = draft.record.joined.get("pubmedqa") or [{}]
        chosen: Mapping[str, Any] = {"answer": content["hallucinated"], "justification": "", "prompt": ""}
        knowledge = content["knowledge"]
    else:
        article = content
        chosen = next(
            candidate for candidate in candidates.all_of(draft.data) if candidate["number"] == final["number"]
        )
        knowledge = content["contexts"]
    headings = list(article.get("mesh", ()))
    source = {}
    if draft.data.get("truth"):
        source = {"truth_source": content["answer"]}
    return NewSample(
        task="detection",
        title=draft.record.title,
        language=draft.record.language,
        content={
            "question": content["question"],
            "knowledge": list(knowledge),
            "truth": presets.truth_of(draft),
            **source,
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
    review, reviewers = _("not sampled"), "none"
    if draw_fraction("review", draft.record.external_id) < settings["review_share"]:
        review, reviewers = _("sampled"), settings["reviewers"]
    entries = {_("review"): review, _("reviewers"): reviewers}
    if "published" in data["final"]:
        return {**entries, _("origin"): _("published")}
    entries |= {_("origin"): _("made here"), _("preset"): presets.name_of(draft)}
    if data.get("truth"):
        entries[_("true answer")] = _("reworded by the generator")
    judges = {candidate["entailment"]["by"] for candidate in candidates.all_of(data) if candidate["entailment"]}
    entries[_("entailment")] = ", ".join(sorted(judges)) or "none"
    if "clusters" in data:
        method = data["clusters"]["similarity"]
    else:
        method = data["final"].get("similarity")
    if method:
        return {**entries, _("similarity"): method}
    return entries


def labelled(content: Mapping[str, Any]) -> LabelledAnswers | None:
    """The two answers of a sample, or of a published pair; None of a question without the second."""
    if "hallucinated" not in content:
        return None
    if "truth" in content:
        truth = content["truth"]
    else:
        truth = content["answer"]
    return LabelledAnswers(
        answers=(truth, content["hallucinated"]),
        right=(True, False),
        question=content["question"],
        contexts={"source": "\n".join(content["knowledge"])},
        facets={"category": content["category"], "difficulty": content["difficulty"]},
    )


def text_to_compare(new_sample: NewSample) -> str:
    """The text that no two samples may share."""
    return f"{new_sample.content['question']}\n{new_sample.content['hallucinated']}"


def _asks_rewording(draft: Draft) -> list[tuple[str, str]]:
    return _labels(draft, [("generator", "reword")])


def _is_published(draft: Draft) -> bool:
    return not _is_generated(draft)


_WRITING = _for_each_candidate(("generator", "generate"))
_VOTING = _for_each_candidate(*((role, "vote") for role in VOTERS))
# An estimate: both directions with the true answer, and with one other cluster's first member.
_ENTAILING = _for_each_candidate(*[("entailment", "entail")] * 4)
STEPS = (
    Step("reword", rewording.reword, _is_reworded, _asks_rewording),
    *TRIES,
    Step("candidates", clusters.generate_candidates, _is_clustered, _WRITING),
    Step("votes", clusters.collect_votes, _is_clustered, _VOTING),
    Step("clusters", clusters.cluster_candidates, _is_clustered, _ENTAILING),
    Step("settle", settle, _is_generated),
    Step("use_published", use_published, _is_published),
)
RECIPE = Recipe(
    label=_("MedHallu: hallucinated answers"),
    intended=(
        "For measuring how well models detect hallucinated answers to questions about biomedical "
        "articles. Half of the answers are wrong on purpose."
    ),
    kinds=frozenset({GENERATED, PUBLISHED}),
    roles=read_declared(ModelRole, __file__, "roles.json"),
    steps=STEPS,
    sample=sample,
    max_versions=3,
    compared=text_to_compare,
    labelled=labelled,
    prompt_sets=tuple(name for name in SETS if name),
    presets=PRESETS,
    setting_labels=presets.LABELS,
    choices={
        "fooled": (attempt.MAJORITY,),
        "reviewers": ("one", "two"),
        "length": (None,),
        "vote_temperature": (None,),
        "vote_max_tokens": (None,),
    },
    lineage=lineage.lineage,
    analysis=lineage.analysis,
    step_labels={
        "reword": _("Reword the true answer"),
        "try_1": _("Write a hallucinated answer"),
        "try_2": _("Write another hallucinated answer"),
        "candidates": _("Write several hallucinated answers"),
        "votes": _("Choose the more accurate answer"),
        "clusters": _("Decide whether one answer follows from another"),
    },
)
