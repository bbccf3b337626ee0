"""From a mistake to a scenario that elicits it again (MMI-5, MMI-6).

Before these steps a draft's data holds one mistake: ``mistake`` {title, description, category, reason, tags, risk, turns,
members}, ``conversation`` [{role: 'patient' | 'doctor', text}], ``doctor`` (the name of its model), ``case`` (the case record).
A record of kind `mistake-scenario` was made and published by others and is taken over as it is. A regeneration takes the
mistake over from the rejected version and writes the scenario alone: the steps before these must not apply to it
(`is_made_anew`).

A scenario is written from what the patient said; the writer is never shown the doctor's turns. Each variant is kept as an
attempt: {number, scenario, must, prompt, gives_away, results: [{role, model, response, same_mistake_happened, explanation}],
replicated}.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.types import Message, Request
from generation.recipes.prompts import Prompt, read_prompts
from generation.recipes.recipe import Draft, Dropped, ModelRole, Models, NewRubric, NewSample, Step
from mhb_site.benchmarks.medmistake import giveaway
from mhb_site.benchmarks.medmistake.scenario_shapes import CHOICES as CHOICES
from mhb_site.benchmarks.medmistake.scenario_shapes import PAPER_SETTINGS as PAPER_SETTINGS
from mhb_site.benchmarks.medmistake.scenario_shapes import SETTINGS as SETTINGS
from mhb_site.benchmarks.medmistake.scenario_shapes import Giveaway, Repeated, Scenario, check_scenario

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "scenario", "reflect", "giveaway", "replicate")
PUT = "medmistake/put@1"  # a scenario is put to a model as it is, by no prompt file

MADE = frozenset({"case", "conversation"})  # the kinds of records of which mistakes are extracted
PUBLISHED = "mistake-scenario"  # that of a published scenario
TASK = _("single-shot")
RUBRIC = "mistake"
TARGETS = ("target_1", "target_2")
MAX_HARDER, MAX_REWRITES = 5, 3
MAX_ATTEMPTS = 1 + MAX_HARDER + MAX_REWRITES
ESTIMATED_ATTEMPTS = 2  # by how many a launch is estimated: what it takes on average, not at most

ROLES: tuple[ModelRole, ...] = (
    ModelRole("writer", _("Writer: turns a mistake into a single-shot scenario"), kinds=MADE),
    ModelRole("checker", _("Checker: finds what gives the answer away in a scenario"), default="writer", kinds=MADE),
    ModelRole("target_1", _("Target 1: is asked whether it repeats the mistake"), kinds=MADE, selects=True),
    ModelRole("target_2", _("Target 2: is asked whether it repeats the mistake"), kinds=MADE, selects=True),
    ModelRole(
        "replication_judge",
        _("Replication judge: decides whether a target repeats the mistake"),
        kinds=MADE,
        apart="target_1",
    ),
)


def settings(draft: Draft) -> Mapping[str, Any]:
    """The values that a draft was launched with; those of this module where it has none."""
    return {**SETTINGS, **draft.settings}


def is_made_anew(draft: Draft) -> bool:
    """Whether this is a regeneration: its mistake stands, and only the scenario is written again."""
    return draft.version > 1


def is_published(draft: Draft) -> bool:
    return bool(draft.record.content.get("kind") == PUBLISHED)


def _is_made(draft: Draft) -> bool:
    return not is_published(draft)


# --------------------------------------------------------------------------------------------------------------- steps


async def carry_over(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """The mistake and its conversation from the version that physicians sent back, and that scenario as what was tried."""
    before = draft.previous or {}
    kept = {name: before[name] for name in ("mistake", "conversation", "doctor") if name in before}
    rejected = {"scenario": before.get("scenario", ""), "objections": list(draft.reasons)}
    return [replace(draft, data={**draft.data, **kept, "rejected": rejected})]


async def _write(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    """Write a variant and check it. What is found is kept with it; a reply of the wrong shape is the draft's error."""
    patient, before = _patient(draft), _attempts(draft)
    prompt = _prompt(draft, "reflect" if before else "scenario")
    values = {
        "patient": as_data(patient),
        "mistake": as_data(_mistake_for_writer(draft)),
        "objections": as_data(list(draft.reasons)),
    }
    if before:
        values["tried"] = as_data([_as_tried(attempt) for attempt in before])
    request = Request(prompt.messages(**values), prompt=prompt.label)
    known = {attempt["scenario"] for attempt in before} | {draft.data.get("rejected", {}).get("scenario", "")}
    made = await models.ask_structured("writer", request, Scenario, check=partial(check_scenario, known=known))
    attempt = {
        "number": number,
        "scenario": made.scenario.strip(),
        "must": made.must.strip(),
        "prompt": prompt.label,
        "gives_away": await _found(draft, models, made, patient),
        "results": [],
        "replicated": False,
    }
    return [replace(draft, data={**draft.data, "attempts": [*before, attempt]})]


async def _found(draft: Draft, models: Models, made: Scenario, patient: Sequence[str]) -> list[dict[str, str]]:
    """What gives the answer away or is not the patient's, by code and, where the settings say so, by the checker."""
    found = [{"by": "code", "what": "words", "text": text} for text in giveaway.told(made.scenario, made.must, patient)]
    unsaid = giveaway.unsaid_numbers(made.scenario, patient)
    found += [{"by": "code", "what": "not said by the patient", "text": number} for number in unsaid]
    if settings(draft)["check"] != "model":
        return found
    prompt = _prompt(draft, "giveaway")
    mistake = draft.data["mistake"]
    messages = prompt.messages(
        patient=as_data(patient),
        mistake=as_data({"title": mistake["title"], "description": mistake["description"]}),
        scenario=as_data(made.scenario),
        must=as_data(made.must),
    )
    try:
        told = await models.ask_structured("checker", Request(messages, prompt=prompt.label), Giveaway)
    except BrokenReply as error:
        return [*found, {"by": "checker", "what": "could not be read", "text": str(error)[:300]}]
    for what, texts in (("words", told.gives_away), ("not said by the patient", told.unsupported)):
        # Words that are not in the scenario cannot give it away: a checker that invents them is not followed.
        found += [
            {"by": "checker", "what": what, "text": text}
            for text in texts
            if text.strip() and text.casefold() in made.scenario.casefold()
        ]
    return found


async def _replicate(draft: Draft, models: Models) -> Sequence[Draft]:
    """Put the last variant to both targets at once, and have each reply judged."""
    *earlier, attempt = _attempts(draft)
    results = await asyncio.gather(*(_result(draft, models, role, attempt["scenario"]) for role in TARGETS))
    repeated = any(result["same_mistake_happened"] is True for result in results)
    return [
        replace(
            draft,
            data={**draft.data, "attempts": [*earlier, {**attempt, "results": list(results), "replicated": repeated}]},
        )
    ]


async def _result(draft: Draft, models: Models, role: str, scenario: str) -> dict[str, Any]:
    reply = await models.ask(role, Request((Message("user", scenario),), prompt=PUT))
    result = {"role": role, "model": reply.model or role, "response": reply.text}
    if not reply.text.strip():
        return {**result, "same_mistake_happened": False, "explanation": "The reply was empty."}
    mistake, prompt = draft.data["mistake"], _prompt(draft, "replicate")
    messages = prompt.messages(
        scenario=as_data(scenario),
        mistake=as_data({"title": mistake["title"], "description": mistake["description"]}),
        response=as_data(reply.text),
    )
    try:
        judged = await models.ask_structured("replication_judge", Request(messages, prompt=prompt.label), Repeated)
    except BrokenReply as error:  # neither repeated nor not: it is kept, and counts for nothing
        return {**result, "same_mistake_happened": None, "explanation": f"The verdict could not be read: {error}"[:300]}
    return {
        **result,
        "same_mistake_happened": judged.same_mistake_happened,
        "explanation": judged.explanation,
    }


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Choose the variant that becomes the sample: the first that was repeated, else the last that was put to the targets.

    Raises Dropped where there is none, or where the settings keep only what was repeated. All attempts stay with the draft.
    """
    attempts = _attempts(draft)
    tested = [attempt for attempt in attempts if attempt["results"]]
    if not tested:
        words = sorted({found["text"] for attempt in attempts for found in attempt["gives_away"]})
        raise Dropped(
            f"All {len(attempts)} scenarios gave the answer away or held what the patient never said: "
            f"{', '.join(words)[:300]}"
        )
    chosen = next((attempt for attempt in tested if attempt["replicated"]), None)
    if chosen is None and settings(draft)["unreplicated"] == "drop":
        raise Dropped(f"Neither target repeated the mistake in {len(tested)} scenarios.")
    return [replace(draft, data={**draft.data, "chosen": (chosen or tested[-1])["number"]})]


async def take_over(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """A published scenario is a sample as it is."""
    content = draft.record.content
    names = ("mistake", "conversation", "doctor", "attempts")
    return [replace(draft, data={**{name: content[name] for name in names}, "chosen": 0})]


def _was_repeated(draft: Draft) -> bool:
    return any(attempt["replicated"] for attempt in _attempts(draft))


def _is_due(draft: Draft, *, number: int) -> bool:
    """Whether another variant is written: bounded for each of the two reasons by its own setting."""
    if is_published(draft) or _was_repeated(draft) or len(_attempts(draft)) != number - 1:
        return False
    told = [attempt for attempt in _attempts(draft) if attempt["gives_away"]]
    handled = [attempt for attempt in _attempts(draft) if not attempt["gives_away"]]
    limits = settings(draft)
    return bool(
        len(told) <= min(limits["rewrites"], MAX_REWRITES) and len(handled) <= min(limits["harder"], MAX_HARDER)
    )


def _is_testable(draft: Draft, *, number: int) -> bool:
    attempts = _attempts(draft)
    return not is_published(draft) and len(attempts) == number and not attempts[-1]["gives_away"]


def _may_come(draft: Draft, applies: Any, *, number: int) -> bool:
    """An estimate asks before there is any data: then the first few variants are expected."""
    if "mistake" not in draft.data and "attempts" not in draft.data:
        return _is_made(draft) and number <= ESTIMATED_ATTEMPTS
    return bool(applies(draft, number=number))


def _asks_of_writing(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    if number > ESTIMATED_ATTEMPTS:
        return ()
    asked = [("writer", _prompt(draft, "scenario" if number == 1 else "reflect").label)]
    if settings(draft)["check"] == "model":
        asked.append(("checker", _prompt(draft, "giveaway").label))
    return asked


def _asks_of_replicating(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    if number > ESTIMATED_ATTEMPTS:
        return ()
    return [
        *((role, PUT) for role in TARGETS),
        *[("replication_judge", _prompt(draft, "replicate").label)] * len(TARGETS),
    ]


def _variants() -> tuple[Step, ...]:
    steps = []
    for number in range(1, MAX_ATTEMPTS + 1):
        due = partial(_may_come, applies=_is_due, number=number)
        testable = partial(_may_come, applies=_is_testable, number=number)
        steps += [
            Step(f"write_{number}", partial(_write, number=number), due, partial(_asks_of_writing, number=number)),
            Step(f"replicate_{number}", _replicate, testable, partial(_asks_of_replicating, number=number)),
        ]
    return tuple(steps)


STEPS: tuple[Step, ...] = (
    Step("carry_over", carry_over, lambda draft: _is_made(draft) and is_made_anew(draft)),
    *_variants(),
    Step("settle", settle, _is_made),
    Step("take_over", take_over, is_published),
)


# -------------------------------------------------------------------------------------------------------------- values


def _attempts(draft: Draft) -> list[dict[str, Any]]:
    return list(draft.data.get("attempts", ()))


def _patient(draft: Draft) -> list[str]:
    return [turn["text"] for turn in draft.data["conversation"] if turn["role"] == "patient"]


def _mistake_for_writer(draft: Draft) -> dict[str, Any]:
    return {name: draft.data["mistake"].get(name, "") for name in ("title", "description", "category", "reason")}


def _as_tried(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """What the reflection is shown of a variant."""
    return {
        "scenario": attempt["scenario"],
        "gives_away": [found["text"] for found in attempt["gives_away"]],
        "results": [{"response": each["response"], "repeated": False} for each in attempt["results"]],
    }


def _prompt(draft: Draft, name: str) -> Prompt:
    return SETS.get(draft.prompts, SETS[""])[name]


# -------------------------------------------------------------------------------------------------------------- sample


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    content: {kind: 'scenario', scenario, mistake: {...}, must, doctor, targets: [model names], replicated, conversation: [...],
    attempts: [...]}. One rubric, tied to the mistake's category.
    """
    mistake = draft.data["mistake"]
    if is_published(draft):
        chosen: Mapping[str, Any] = {**draft.record.content, "prompt": ""}
        targets = list(draft.record.content["targets"])
    else:
        chosen = next(each for each in _attempts(draft) if each["number"] == draft.data["chosen"])
        targets = list(dict.fromkeys(result["model"] for result in chosen["results"]))
    category = mistake.get("category", "")
    return NewSample(
        task=TASK,
        title=mistake["title"],
        language=draft.record.language,
        content={
            "kind": "scenario",
            "scenario": chosen["scenario"],
            "mistake": dict(mistake),
            "must": chosen["must"],
            "doctor": draft.data.get("doctor", ""),
            "targets": targets,
            "replicated": bool(chosen["replicated"]),
            "conversation": list(draft.data.get("conversation", ())),
            "attempts": _attempts(draft),
        },
        rubrics=(NewRubric(RUBRIC, chosen["must"], (category,) if category else ()),),
        prompt=chosen["prompt"],
        made=_made(draft, bool(chosen["replicated"])),
    )


def sample_facets(content: Mapping[str, Any]) -> dict[str, list[str]]:
    """Under which values a sample is counted besides its category: the model's rating of the risk (physicians' is the
    severity), the model that made the mistake, those by which the scenario was chosen, and whether any of them repeated it."""
    found = {
        "risk": [content["mistake"].get("risk", "")],
        "doctor": [content.get("doctor", "")],
        "target": list(content.get("targets", ())),
        "replicated": ["yes" if content.get("replicated") else "no"],
    }
    return {name: [value[:100] for value in values if value] for name, values in found.items()}


SAMPLE_FIELDS = ("mistake", "doctor", "targets", "replicated")  # of a sample's content, all that `sample_facets` reads


def _made(draft: Draft, replicated: bool) -> dict[str, str]:
    """What the data card says of how a sample was made."""
    values = settings(draft)
    sampled = _lot(draft) < values["review_share"]
    made = {
        _("review"): _("sampled") if sampled else _("not sampled"),
        _("reviewers"): values["reviewers"] if sampled else "none",
        _("replicated"): _("yes") if replicated else _("no"),
        _("origin"): _("published") if is_published(draft) else _("made here"),
    }
    if not is_published(draft):
        made[_("scenarios tried")] = str(len(_attempts(draft)))
        made[_("checked by")] = _("code and model") if values["check"] == "model" else _("code")
    return made


def _lot(draft: Draft) -> float:
    """A number in [0, 1) for one mistake of a record: the same for all of its versions."""
    parts = ("review", draft.record.external_id, draft.data["mistake"]["title"])
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def compared(made: NewSample) -> str:
    """The text that no two samples may share: two mistakes of one conversation may have much the same scenario."""
    mistake = made.content["mistake"]
    return "\n".join((mistake["title"], mistake["description"], made.content["scenario"]))
