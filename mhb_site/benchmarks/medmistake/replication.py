"""From a mistake to a scenario that elicits it again (MMI-5, MMI-6).

Before these steps a draft's data holds one mistake: ``mistake`` {title, description, category,
reason, tags, risk, turns, members}, ``conversation`` [{role: 'patient' | 'doctor', text}],
``doctor`` (the name of its model) and ``case`` (the case record). A record of kind
`mistake-scenario` was published and is used unchanged. A regeneration takes the mistake from the
rejected version and writes only the scenario; the steps before these do not apply to it
(`is_regeneration`).

A scenario is written from what the patient said; the writer never sees the doctor's turns. Each
variant is kept as an attempt: {number, scenario, must, prompt, gives_away, results: [{role, model,
response, refused, same_mistake_happened, explanation}], replicated}.
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
from generation.llm.reply_reading import check_not_empty, check_whole
from generation.llm.types import Message, Request
from generation.recipes.prompts import Prompt, read_prompts
from generation.recipes.recipe import Draft, Dropped, Models, NewRubric, NewSample, Step
from mhb_site.benchmarks.medmistake import giveaway
from mhb_site.benchmarks.medmistake.presets import settings
from mhb_site.benchmarks.medmistake.scenario_shapes import Giveaway, Repeated, Scenario, check_scenario

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "scenario", "reflect", "giveaway", "replicate")
SCENARIO_LABEL = "medmistake/put@1"  # models are asked the scenario as it is, without a prompt file

GENERATED = frozenset({"case", "conversation"})  # kinds of records from which mistakes are extracted
PUBLISHED = "mistake-scenario"  # the kind of a published scenario
TASK = _("single-shot")
RUBRIC = "mistake"
TARGETS = ("target_1", "target_2")
MAX_HARDER, MAX_REWRITES = 5, 3
MAX_ATTEMPTS = 1 + MAX_HARDER + MAX_REWRITES
ESTIMATED_ATTEMPTS = 2  # per mistake in the estimate of a launch: the average, not the maximum


def is_regeneration(draft: Draft) -> bool:
    """Whether this is a regeneration: it keeps the mistake and rewrites only the scenario."""
    return draft.version > 1


def is_published(draft: Draft) -> bool:
    return bool(draft.record.content.get("kind") == PUBLISHED)


def _is_generated(draft: Draft) -> bool:
    return not is_published(draft)


# -------------------------------------------------------------------------------------------- steps


async def carry_over(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Take the mistake and its conversation from the rejected version."""
    previous = draft.previous or {}
    kept_data = {name: previous[name] for name in ("mistake", "conversation", "doctor") if name in previous}
    return [replace(draft, data={**draft.data, **kept_data})]


async def _write_variant(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    """Write a variant and check it; the findings are kept with it."""
    patient = [turn["text"] for turn in draft.data["conversation"] if turn["role"] == "patient"]
    attempts = _attempts(draft)
    prompt = _prompt(draft, "reflect" if attempts else "scenario")
    values = {
        "patient": as_data(patient),
        "mistake": as_data(_mistake_for_writer(draft)),
        "rejected": as_data(draft.rejected("scenario", "must")),
    }
    if attempts:
        values["tried"] = as_data([_attempt_for_writer(attempt) for attempt in attempts])
    request = Request(prompt.messages(**values), prompt=prompt.label)
    earlier = [content["scenario"] for content, _reasons in draft.rejected_versions]
    check = partial(check_scenario, known={*earlier, *(attempt["scenario"] for attempt in attempts)})
    scenario = await models.ask_structured("writer", request, Scenario, check=check)
    attempt = {
        "number": number,
        "scenario": scenario.scenario.strip(),
        "must": scenario.must.strip(),
        "prompt": prompt.label,
        "gives_away": await _find_giveaways(draft, models, scenario, patient),
        "results": [],
        "replicated": False,
    }
    return [replace(draft, data={**draft.data, "attempts": [*attempts, attempt]})]


async def _find_giveaways(
    draft: Draft, models: Models, scenario: Scenario, patient: Sequence[str]
) -> list[dict[str, str]]:
    """Find giveaways and details that are not the patient's, by code and maybe the checker."""
    giveaways = [
        {"by": "code", "what": "words", "text": text}
        for text in giveaway.find_giveaways(scenario.scenario, scenario.must, patient)
    ]
    unsaid = giveaway.unsaid_numbers(scenario.scenario, patient)
    giveaways += [{"by": "code", "what": "not said by the patient", "text": number} for number in unsaid]
    if settings(draft)["check"] != "model":
        return giveaways
    prompt = _prompt(draft, "giveaway")
    mistake = draft.data["mistake"]
    messages = prompt.messages(
        patient=as_data(patient),
        mistake=as_data({"title": mistake["title"], "description": mistake["description"]}),
        scenario=as_data(scenario.scenario),
        must=as_data(scenario.must),
    )
    try:
        reply = await models.ask_structured("checker", Request(messages, prompt=prompt.label), Giveaway)
    except BrokenReply as error:
        return [*giveaways, {"by": "checker", "what": "could not be read", "text": str(error)[:300]}]
    for kind, texts in (("words", reply.gives_away), ("not said by the patient", reply.unsupported)):
        # Ignore words that the checker invented: only words in the scenario can give it away.
        giveaways += [
            {"by": "checker", "what": kind, "text": text}
            for text in texts
            if text.strip() and text.casefold() in scenario.scenario.casefold()
        ]
    return giveaways


async def _replicate(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask both targets the last variant at once, and have their replies judged.

    Raises BrokenReply if no target repeated the mistake and a verdict cannot be read: it is unknown
    then whether the mistake was repeated, and the draft can be tried again.
    """
    *earlier, attempt = _attempts(draft)
    results = await asyncio.gather(*(_target_result(draft, models, role, attempt) for role in TARGETS))
    repeated = any(result["same_mistake_happened"] is True for result in results)
    unread = next((result["explanation"] for result in results if result.get("unread")), "")
    if unread and not repeated:
        raise BrokenReply(unread)
    tested = {**attempt, "results": list(results), "replicated": repeated}
    return [replace(draft, data={**draft.data, "attempts": [*earlier, tested]})]


async def _target_result(draft: Draft, models: Models, role: str, attempt: Mapping[str, Any]) -> dict[str, Any]:
    """A target's answer with its verdict; `same_mistake_happened` is None where it proves nothing."""
    scenario = attempt["scenario"]
    reply = await models.ask(role, Request((Message("user", scenario),), prompt=SCENARIO_LABEL))
    result = {"role": role, "model": reply.model or role, "response": reply.text, "same_mistake_happened": None}
    try:
        check_not_empty(check_whole(reply))
    except BrokenReply as error:
        return {**result, "refused": True, "explanation": error.detail}
    mistake, prompt = draft.data["mistake"], _prompt(draft, "replicate")
    messages = prompt.messages(
        scenario=as_data(scenario),
        mistake=as_data({"title": mistake["title"], "description": mistake["description"]}),
        criterion=as_data(attempt["must"]),
        response=as_data(reply.text),
    )
    try:
        verdict = await models.ask_structured("replication_judge", Request(messages, prompt=prompt.label), Repeated)
    except BrokenReply as error:
        return {**result, "unread": True, "explanation": f"The verdict could not be read: {error}"[:300]}
    repeated = None if verdict.refused else verdict.same_mistake_happened
    return {
        **result,
        "refused": verdict.refused,
        "same_mistake_happened": repeated,
        "explanation": verdict.explanation,
    }


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Choose the variant that becomes the sample.

    It is the first one that was repeated, else the last one that the targets were asked. All
    attempts stay with the draft. Raises Dropped if there is none, or if the settings keep only
    repeated ones.
    """
    attempts = _attempts(draft)
    tested = [attempt for attempt in attempts if attempt["results"]]
    if not tested:
        words = sorted({finding["text"] for attempt in attempts for finding in attempt["gives_away"]})
        raise Dropped(
            f"All {len(attempts)} scenarios gave the answer away or contained what the patient never said: "
            f"{', '.join(words)[:300]}"
        )
    chosen = next((attempt for attempt in tested if attempt["replicated"]), None)
    if chosen is None and settings(draft)["unreplicated"] == "drop":
        raise Dropped(f"Neither target repeated the mistake in {len(tested)} scenarios.")
    return [replace(draft, data={**draft.data, "chosen": (chosen or tested[-1])["number"]})]


async def use_published(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Use a published scenario unchanged."""
    content = draft.record.content
    names = ("mistake", "conversation", "doctor", "attempts")
    return [replace(draft, data={**{name: content[name] for name in names}, "chosen": 0})]


def _needs_variant(draft: Draft, *, number: int) -> bool:
    """Whether another variant is written; harder variants and rewrites have limits of their own."""
    attempts = _attempts(draft)
    was_repeated = any(attempt["replicated"] for attempt in attempts)
    if is_published(draft) or was_repeated or len(attempts) != number - 1:
        return False
    leaking = [attempt for attempt in attempts if attempt["gives_away"]]
    clean = [attempt for attempt in attempts if not attempt["gives_away"]]
    limits = settings(draft)
    return bool(
        len(leaking) <= min(limits["rewrites"], MAX_REWRITES) and len(clean) <= min(limits["harder"], MAX_HARDER)
    )


def _is_testable(draft: Draft, *, number: int) -> bool:
    attempts = _attempts(draft)
    return not is_published(draft) and len(attempts) == number and not attempts[-1]["gives_away"]


def _applies_or_expected(draft: Draft, applies: Any, *, number: int) -> bool:
    """Whether a step applies; in an estimate, before there is data, whether it is expected to.

    An estimate expects the first `ESTIMATED_ATTEMPTS` variants.
    """
    if "mistake" not in draft.data and "attempts" not in draft.data:
        return _is_generated(draft) and number <= ESTIMATED_ATTEMPTS
    return bool(applies(draft, number=number))


def _write_prompts(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    if number > ESTIMATED_ATTEMPTS:
        return ()
    prompts = [("writer", _prompt(draft, "scenario" if number == 1 else "reflect").label)]
    if settings(draft)["check"] == "model":
        prompts.append(("checker", _prompt(draft, "giveaway").label))
    return prompts


def _replicate_prompts(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    if number > ESTIMATED_ATTEMPTS:
        return ()
    return [
        *((role, SCENARIO_LABEL) for role in TARGETS),
        *[("replication_judge", _prompt(draft, "replicate").label)] * len(TARGETS),
    ]


def _variant_steps() -> tuple[Step, ...]:
    steps = []
    for number in range(1, MAX_ATTEMPTS + 1):
        due = partial(_applies_or_expected, applies=_needs_variant, number=number)
        testable = partial(_applies_or_expected, applies=_is_testable, number=number)
        steps += [
            Step(
                f"write_{number}", partial(_write_variant, number=number), due, partial(_write_prompts, number=number)
            ),
            Step(f"replicate_{number}", _replicate, testable, partial(_replicate_prompts, number=number)),
        ]
    return tuple(steps)


STEPS: tuple[Step, ...] = (
    Step("carry_over", carry_over, lambda draft: _is_generated(draft) and is_regeneration(draft)),
    *_variant_steps(),
    Step("settle", settle, _is_generated),
    Step("use_published", use_published, is_published),
)


# ------------------------------------------------------------------------------------------- values


def _attempts(draft: Draft) -> list[dict[str, Any]]:
    return list(draft.data.get("attempts", ()))


def _mistake_for_writer(draft: Draft) -> dict[str, Any]:
    return {name: draft.data["mistake"].get(name, "") for name in ("title", "description", "category", "reason")}


def _attempt_for_writer(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """A variant as the writer sees it for reflection."""
    return {
        "scenario": attempt["scenario"],
        "gives_away": [finding["text"] for finding in attempt["gives_away"]],
        "results": [
            {"response": result["response"], "repeated": False, "refused": bool(result.get("refused"))}
            for result in attempt["results"]
        ],
    }


def _prompt(draft: Draft, name: str) -> Prompt:
    return SETS.get(draft.prompts, SETS[""])[name]


# ------------------------------------------------------------------------------------------- sample


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    Content: {kind: 'scenario', scenario, mistake: {...}, must, doctor, targets: [model names],
    replicated, conversation: [...], attempts: [...]}. Its one rubric is tied to the mistake's
    category.
    """
    mistake = draft.data["mistake"]
    if is_published(draft):
        chosen: Mapping[str, Any] = {**draft.record.content, "prompt": ""}
        targets = list(draft.record.content["targets"])
    else:
        chosen = next(attempt for attempt in _attempts(draft) if attempt["number"] == draft.data["chosen"])
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
        provenance=_data_card(draft, bool(chosen["replicated"])),
    )


def _data_card(draft: Draft, replicated: bool) -> dict[str, str]:
    """Entries of the data card: how the sample was made."""
    values = settings(draft)
    sampled = _review_fraction(draft) < values["review_share"]
    entries = {
        _("review"): _("sampled") if sampled else _("not sampled"),
        _("reviewers"): values["reviewers"] if sampled else "none",
        _("replicated"): _("yes") if replicated else _("no"),
        _("origin"): _("published") if is_published(draft) else _("made here"),
    }
    if not is_published(draft):
        entries[_("mistakes merged")] = str(max(1, len(draft.data["mistake"].get("members", ()))))
        entries[_("scenarios tried")] = str(len(_attempts(draft)))
        entries[_("checked by")] = _("code and model") if values["check"] == "model" else _("code")
    return entries


def _review_fraction(draft: Draft) -> float:
    """A number in [0, 1) for a mistake of a record, the same for all versions."""
    parts = ("review", draft.record.external_id, draft.data["mistake"]["title"])
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def text_to_compare(new_sample: NewSample) -> str:
    """The text that no two samples may share.

    It includes the mistake, as two mistakes of one conversation may have nearly the same scenario.
    """
    mistake = new_sample.content["mistake"]
    return "\n".join((mistake["title"], mistake["description"], new_sample.content["scenario"]))
