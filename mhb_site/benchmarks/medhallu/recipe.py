"""How MedHallu makes a sample: a hallucinated answer to a PubMedQA question, graded by how many models it fools.

Records of kind `qa` go through up to five tries (MHU-3 to MHU-6), or through candidates that are clustered (MHU-8); records of
kind `qa-pair` have been made and published by others and are taken as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, Dropped, ModelRole, Models, NewRubric, NewSample, Recipe, Step
from mhb_site.benchmarks.medhallu import attempt, candidates, clusters, lineage, mesh, presets, similarity, votes
from mhb_site.benchmarks.medhallu.candidates import SETS, prompt_of
from mhb_site.benchmarks.medhallu.presets import MAX_TRIES, PRESETS

MADE, PUBLISHED = "qa", "qa-pair"

# By how many tries a launch is estimated: what it takes on average, not at most.
ESTIMATED_TRIES = 2
CRITERION = "Says whether the answer shown is hallucinated."


# --------------------------------------------------------------------------------------------------------------- steps


def _is_made(draft: Draft) -> bool:
    return bool(draft.record.content["kind"] == MADE)


def _is_clustered(draft: Draft) -> bool:
    return _is_made(draft) and presets.settings(draft)["candidates"] > 0


def _all_of(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [candidate for tried in data.get("tries", ()) for candidate in tried["candidates"]]


def _still_tries(draft: Draft, *, number: int) -> bool:
    if not _is_made(draft) or _is_clustered(draft) or number > presets.settings(draft)["tries"]:
        return False
    return not any(candidate["qualified"] for candidate in _all_of(draft.data))


async def _try(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    tried = await attempt.one_try(draft, models, number)
    return [replace(draft, data={**draft.data, "tries": [*draft.data.get("tries", ()), tried]})]


def _asks_of_try(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    if number > ESTIMATED_TRIES:
        return ()
    settings = presets.settings(draft)
    judging = [(role, prompt_of(draft, "vote").label) for role in votes.VOTERS]
    if settings["entailment"]:
        judging += [("entailment", prompt_of(draft, "entail").label)] * 2
    first = prompt_of(draft, "generate" if number == 1 or not settings["feedback"] else "regenerate")
    asked = [("generator", first.label), *judging]
    for _again in range(settings["rewrites"]):
        asked += [("critic", prompt_of(draft, name).label) for name in ("critique", "rewrite")] * settings["steps"]
        if settings["regenerate"]:
            asked.append(("generator", prompt_of(draft, "regenerate").label))
        asked += judging
    if settings["feedback"] and number < ESTIMATED_TRIES:
        asked.append(("critic", prompt_of(draft, "critique").label))  # that the next one learns from
    return asked


TRIES = tuple(
    Step(
        f"try_{number}",
        partial(_try, number=number),
        partial(_still_tries, number=number),
        partial(_asks_of_try, number=number),
    )
    for number in range(1, MAX_TRIES + 1)
)


async def _candidates(draft: Draft, models: Models) -> Sequence[Draft]:
    made, broken = await clusters.make(draft, models)
    return [replace(draft, data={**draft.data, "made": made, "broken": broken})]


async def _votes(draft: Draft, models: Models) -> Sequence[Draft]:
    return [replace(draft, data={**draft.data, "made": await clusters.vote(draft, models, draft.data["made"])})]


async def _clusters(draft: Draft, models: Models) -> Sequence[Draft]:
    rest = {name: value for name, value in draft.data.items() if name not in ("made", "broken")}
    measured, found = await clusters.cluster(draft, models, draft.data["made"])
    tries = [{"number": 1, "candidates": measured, "feedback": [], "broken": draft.data.get("broken", "")}]
    return [replace(draft, data={**rest, "tries": tries, "clusters": found})]


def _asks_of_candidates(draft: Draft) -> Sequence[tuple[str, str]]:
    return [("generator", prompt_of(draft, "generate").label)] * int(presets.settings(draft)["candidates"])


def _asks_of_votes(draft: Draft) -> Sequence[tuple[str, str]]:
    label = prompt_of(draft, "vote").label
    return [(role, label) for role in votes.VOTERS] * int(presets.settings(draft)["candidates"])


def _asks_of_clusters(draft: Draft) -> Sequence[tuple[str, str]]:
    # Each meets the true answer in both directions, and as many cluster heads again, say.
    return [("entailment", prompt_of(draft, "entail").label)] * 4 * int(presets.settings(draft)["candidates"])


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:
    """Choose the candidate that becomes the sample: the one that qualified, else the nearest to the true answer.

    Raises Dropped where nothing can be chosen.
    """
    settings = presets.settings(draft)
    tries = draft.data.get("tries", ())
    made = _all_of(draft.data)
    if _is_clustered(draft):
        chosen = clusters.best(made)
    else:
        chosen = next((candidate for candidate in made if candidate["qualified"]), None)
    final: dict[str, Any] = {"tries": len(tries), "fallback": chosen is None}
    if chosen is None:
        # A fallback counts as easy, which says nothing of one whose votes could not be read.
        read = [each for each in made if votes.were_read(each["votes"])]
        able = [each for each in read if settings["fallback_entailed"] or each["entailed"] is False]
        if not able:
            raise Dropped(_why_none(made, tries))
        how, rows = await similarity.vectors(
            models, [draft.record.content["answer"], *(each["answer"] for each in able)]
        )
        near = {each["number"]: similarity.cosine(row, rows[0]) for each, row in zip(able, rows[1:], strict=True)}
        chosen = max(able, key=lambda each: near[each["number"]])
        final |= {"similarity": how, "near": near}
    final |= {
        "number": chosen["number"],
        "category": chosen["category"],
        "difficulty": "easy" if final["fallback"] else votes.difficulty(chosen["fooled"], len(chosen["votes"])),
        "flags": list(chosen["flags"]),
    }
    return [replace(draft, data={**draft.data, "final": final})]


def _why_none(made: Sequence[Mapping[str, Any]], tries: Sequence[Mapping[str, Any]]) -> str:
    """Why no candidate can become the sample: what is wrong with those there are, then why there are no more."""
    unread = {vote["role"] for each in made for vote in each["votes"] if vote["broken"]}
    known = [each for each in made if votes.were_read(each["votes"])]
    unjudged = sum(each["entailed"] is None for each in known)
    same = len(known) - unjudged
    found = (
        (len(made) - len(known), f"votes could not be read ({', '.join(sorted(unread))})"),
        (unjudged, "entailment could not be judged"),
        (same, "the answer says what the true answer says"),
    )
    reasons = [f"{count} of {len(made)} candidates: {why}." for count, why in found if count]
    reasons += [tried["broken"] for tried in tries if tried["broken"]]
    return " ".join(reasons)


async def take_over(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """A published pair is a sample as it is; its difficulty and category are kept like those of one made here."""
    content = draft.record.content
    final = {"category": content["category"], "difficulty": content["difficulty"], "published": True}
    return [replace(draft, data={"final": final})]


# -------------------------------------------------------------------------------------------------------------- sample


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    content: {question, knowledge: [passages], truth, hallucinated, justification, category, difficulty, tries, fallback, flags
    ("length"), pmid, mesh: [headings], branches: [letters of MeSH]}. One rubric, R1, tied to the category.
    """
    content, final = draft.record.content, draft.data["final"]
    if content["kind"] == PUBLISHED:
        [article, *_others] = draft.record.joined.get("pubmedqa") or [{}]
        chosen: Mapping[str, Any] = {"answer": content["hallucinated"], "justification": "", "prompt": ""}
        knowledge = content["knowledge"]
    else:
        article = content
        chosen = next(each for each in _all_of(draft.data) if each["number"] == final["number"])
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
        made=_made(draft),
    )


def _made(draft: Draft) -> dict[str, str]:
    """What the data card says of how a sample was made."""
    settings, data = presets.settings(draft), draft.data
    sampled = candidates.drawn("review", draft.record.external_id) < settings["review_share"]
    made = {
        _("review"): _("sampled") if sampled else _("not sampled"),
        _("reviewers"): settings["reviewers"] if sampled else "none",
    }
    if "published" in data["final"]:
        return {**made, _("origin"): _("published")}
    made |= {_("origin"): _("made here"), _("preset"): presets.name_of(draft)}
    # A batch is refused where they are one model, unless its launch says that they may be.
    made[_("voters and generator")] = _("may be one model") if settings["one_model"] else _("different models")
    used = {each["entailment"]["by"] for each in _all_of(data) if each["entailment"]}
    made[_("entailment")] = ", ".join(sorted(used)) or "none"
    how = data["clusters"]["similarity"] if "clusters" in data else data["final"].get("similarity")
    return {**made, _("similarity"): how} if how else made


def compared(made: NewSample) -> str:
    """The text that no two samples may share."""
    return f"{made.content['question']}\n{made.content['hallucinated']}"


_MAKING = frozenset({MADE})

RECIPE = Recipe(
    label=_("MedHallu: hallucinated answers"),
    kinds=frozenset({MADE, PUBLISHED}),
    roles=(
        ModelRole("generator", _("Generator: writes the hallucinated answers"), kinds=_MAKING),
        ModelRole("voter_1", _("Voter 1: chooses the more accurate of two answers"), kinds=_MAKING, apart="generator"),
        ModelRole("voter_2", _("Voter 2: chooses the more accurate of two answers"), kinds=_MAKING, apart="generator"),
        ModelRole("voter_3", _("Voter 3: chooses the more accurate of two answers"), kinds=_MAKING, apart="generator"),
        ModelRole(
            "critic", _("Critic: finds what gives an answer away and rewrites it"), default="generator", kinds=_MAKING
        ),
        ModelRole(
            "entailment",
            _("Entailment: judges whether one answer follows from another if no NLI model is installed"),
            default="critic",
            optional=True,
            kinds=_MAKING,
        ),
        ModelRole(
            "embedder",
            _("Embedder: measures how similar answers are to the true answer; without it, TF-IDF is used"),
            optional=True,
            kinds=_MAKING,
        ),
    ),
    steps=(
        *TRIES,
        Step("candidates", _candidates, _is_clustered, _asks_of_candidates),
        Step("votes", _votes, _is_clustered, _asks_of_votes),
        Step("clusters", _clusters, _is_clustered, _asks_of_clusters),
        Step("settle", settle, _is_made),
        Step("take_over", take_over, lambda draft: not _is_made(draft)),
    ),
    sample=sample,
    max_versions=3,
    compared=compared,
    prompt_sets=tuple(name for name in SETS if name),
    presets=PRESETS,
    choices={"reviewers": ("one", "two"), "length": (None,), "vote_temperature": (None,), "vote_max_tokens": (None,)},
    may_share="one_model",
    lineage=lineage.lineage,
    analysis=lineage.analysis,
)
