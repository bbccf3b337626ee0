"""From a mistake to a scenario that elicits it again.

Before these steps a draft's data holds one mistake: ``mistake`` {title, description, category,
reason, tags, risk, turns, members}, ``conversation`` [{role: 'patient' | 'doctor', text}],
``doctor`` (the name of its model) and ``case`` (the case record). A record of kind
`mistake-scenario` was published and is used unchanged. A regeneration takes the mistake from the
rejected version and writes only the scenario; the steps before these do not apply to it.

A scenario is written from what the patient said; the writer never sees the doctor's turns. Each
variant is kept as an attempt: {number, scenario, must, prompt, gives_away, results: [{role, model,
response, refused, same_mistake_happened, explanation}], replicated}.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.medical_text import contains_text
from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import check_explained, check_not_empty, check_whole
from generation.llm.types import Message, Request
from generation.recipes.prompts import read_prompts
from generation.recipes.recipe import Draft, Dropped, Models, NewRubric, NewSample, Step
from generation.recipes.review_sampling import draw_fraction
from mhb_site.benchmarks.medmistake import giveaway
from mhb_site.benchmarks.medmistake.presets import settings
from mhb_site.benchmarks.medmistake.scenario_shapes import Giveaway, Repeated, Scenario, check_scenario

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "scenario", "reflect", "giveaway", "replicate")
SCENARIO_LABEL = "medmistake/put@1"  # models are asked the scenario as it is, without a prompt file

GENERATED = frozenset({"case", "conversation"})  # kinds of records from which mistakes are extracted
PUBLISHED = "mistake-scenario"  # the kind of a published scenario
TASK = "single-shot"
RUBRIC = "mistake"
TARGETS = ("target_1", "target_2")
MAX_HARDER, MAX_REWRITES = 5, 3
MAX_ATTEMPTS = 1 + MAX_HARDER + MAX_REWRITES
ESTIMATED_ATTEMPTS = 2  # per mistake in the estimate of a launch: the average, not the maximum


def is_published(draft: Draft) -> bool:
    return bool(draft.record.content.get("kind") == PUBLISHED)


def _is_generated(draft: Draft) -> bool:
    return not is_published(draft)


def _is_regenerated(draft: Draft) -> bool:
    return _is_generated(draft) and draft.version > 1


# -------------------------------------------------------------------------------------------- steps


async def carry_over(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Take the mistake and its conversation from the rejected version."""
    previous = draft.previous or {}
    kept = {name: previous[name] for name in ("mistake", "conversation", "doctor") if name in previous}
    return [draft.extended(**kept)]


async def _write_variant(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    """Write a variant and check it; the findings are kept with it."""
    patient = [turn["text"] for turn in draft.data["conversation"] if turn["role"] == "patient"]
    attempts, mistake = _attempts(draft), draft.data["mistake"]
    prompt = "scenario"
    if attempts:
        prompt = "reflect"
    request = SETS[draft.prompts][prompt].request(
        {
            "patient": patient,
            "mistake": {name: mistake.get(name, "") for name in ("title", "description", "category", "reason")},
            "rejected": draft.rejected("scenario", "must"),
            "tried": [_attempt_for_writer(attempt) for attempt in attempts],
        }
    )
    known = {attempt["scenario"] for attempt in attempts}
    known.update(content["scenario"] for content, _reasons in draft.rejected_versions)
    check = partial(check_scenario, known=known)
    scenario = await models.ask_structured("writer", request, Scenario, check=check)
    attempt = {
        "number": number,
        "scenario": scenario.scenario.strip(),
        "must": scenario.must.strip(),
        "prompt": request.prompt,
        "gives_away": await _find_giveaways(draft, models, scenario, patient),
        "results": [],
        "replicated": False,
    }
    return [draft.extended(attempts=[*attempts, attempt])]


async def _find_giveaways(
    draft: Draft, models: Models, scenario: Scenario, patient: Sequence[str]
) -> list[dict[str, str]]:
    """Find giveaways and details that are not the patient's, by code and maybe the checker."""
    revealing = giveaway.find_giveaways(scenario.scenario, scenario.must, patient)
    unsaid = giveaway.unsaid_numbers(scenario.scenario, patient)
    giveaways = [*_findings("code", "words", revealing), *_findings("code", "not said by the patient", unsaid)]
    if settings(draft)["check"] != "model":
        return giveaways
    data = {"patient": patient, "mistake": shown_mistake(draft.data["mistake"]), **scenario.model_dump()}
    try:
        reply = await models.ask_structured("checker", SETS[draft.prompts]["giveaway"].request(data), Giveaway)
    except BrokenReply as error:
        return [*giveaways, *_findings("checker", "could not be read", [str(error)[:300]])]
    # Only words in the scenario give it away, and none that the checker invented.
    revealing = [text for text in reply.gives_away if contains_text(scenario.scenario, text)]
    unsaid = [text for text in reply.unsupported if contains_text(scenario.scenario, text)]
    giveaways += _findings("checker", "words", revealing)
    giveaways += _findings("checker", "not said by the patient", unsaid)
    return giveaways


def _findings(by: str, what: str, texts: Iterable[str]) -> list[dict[str, str]]:
    return [{"by": by, "what": what, "text": text} for text in texts]


async def _replicate(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask both targets the last variant at once, and have their replies judged.

    Raises BrokenReply if no target repeated the mistake and a verdict cannot be read: it is unknown
    then whether the mistake was repeated, and the draft can be tried again.
    """
    *earlier, attempt = _attempts(draft)
    results = await asyncio.gather(*(_target_result(draft, models, role, attempt) for role in TARGETS))
    repeated = any(result["same_mistake_happened"] is True for result in results)
    for result in results:
        if result.get("unread") and not repeated:
            raise BrokenReply(result["explanation"])
    return [draft.extended(attempts=[*earlier, {**attempt, "results": list(results), "replicated": repeated}])]


async def _target_result(draft: Draft, models: Models, role: str, attempt: Mapping[str, Any]) -> dict[str, Any]:
    """A target's answer with its verdict; `same_mistake_happened` is None where it proves nothing."""
    scenario = attempt["scenario"]
    reply = await models.ask(role, Request((Message("user", scenario),), prompt=SCENARIO_LABEL))
    result = {"role": role, "model": reply.model or role, "response": reply.text, "same_mistake_happened": None}
    try:
        check_not_empty(check_whole(reply))
    except BrokenReply as error:
        return {**result, "refused": True, "explanation": error.detail}
    mistake = shown_mistake(draft.data["mistake"])
    data = {"scenario": scenario, "mistake": mistake, "criterion": attempt["must"], "response": reply.text}
    request = SETS[draft.prompts]["replicate"].request(data)

    def check(verdict: Repeated) -> None:
        check_explained(request, [verdict.explanation])

    try:
        verdict = await models.ask_structured("replication_judge", request, Repeated, check=check)
    except BrokenReply as error:
        return {**result, "unread": True, "explanation": f"The verdict could not be read: {error}"[:300]}
    if verdict.refused:
        return {**result, "refused": True, "explanation": verdict.explanation}
    return {**result, **verdict.model_dump()}


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Choose the variant that becomes the sample.

    It is the first one that was repeated, else the last one that the targets were asked. All
    attempts stay with the draft. Raises Dropped if there is none, or if the settings keep only
    repeated ones.
    """
    attempts = _attempts(draft)
    tested = [attempt for attempt in attempts if attempt["results"]]
    if not tested:
        words = set[str]()
        for attempt in attempts:
            words.update(finding["text"] for finding in attempt["gives_away"])
        raise Dropped(
            f"All {len(attempts)} scenarios gave the answer away or contained what the patient never said: "
            f"{', '.join(sorted(words))[:300]}"
        )
    for attempt in tested:
        if attempt["replicated"]:
            return [draft.extended(chosen=attempt["number"])]
    if settings(draft)["unreplicated"] == "drop":
        raise Dropped(f"Neither target repeated the mistake in {len(tested)} scenarios.")
    return [draft.extended(chosen=tested[-1]["number"])]


async def use_published(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Use a published scenario unchanged."""
    content = draft.record.content
    names = ("mistake", "conversation", "doctor", "attempts")
    return [replace(draft, data={**{name: content[name] for name in names}, "chosen": 0})]


def _needs_variant(draft: Draft, *, number: int) -> bool:
    """Whether another variant is written; harder variants and rewrites have limits of their own."""
    attempts = _attempts(draft)
    if is_published(draft) or len(attempts) != number - 1:
        return False
    leaking = clean = 0
    for attempt in attempts:
        if attempt["replicated"]:
            return False
        if attempt["gives_away"]:
            leaking += 1
        else:
            clean += 1
    limits = settings(draft)
    return bool(leaking <= min(limits["rewrites"], MAX_REWRITES) and clean <= min(limits["harder"], MAX_HARDER))


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
    prompts, written = SETS[draft.prompts], "reflect"
    if number == 1:
        written = "scenario"
    asked = [("writer", prompts[written].label)]
    if settings(draft)["check"] == "model":
        asked.append(("checker", prompts["giveaway"].label))
    return asked


def _replicate_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    judged = ("replication_judge", SETS[draft.prompts]["replicate"].label)
    asked = [(role, SCENARIO_LABEL) for role in TARGETS]
    return [*asked, *[judged] * len(TARGETS)]


def _variant_steps() -> tuple[Step, ...]:
    steps = []
    for number in range(1, MAX_ATTEMPTS + 1):
        due = partial(_applies_or_expected, applies=_needs_variant, number=number)
        testable = partial(_applies_or_expected, applies=_is_testable, number=number)
        steps += [
            Step(
                f"write_{number}", partial(_write_variant, number=number), due, partial(_write_prompts, number=number)
            ),
            Step(f"replicate_{number}", _replicate, testable, _replicate_prompts),
        ]
    return tuple(steps)


STEPS: tuple[Step, ...] = (
    Step("carry_over", carry_over, _is_regenerated),
    *_variant_steps(),
    Step("settle", settle, _is_generated),
    Step("use_published", use_published, is_published),
)


# ------------------------------------------------------------------------------------------- values


def _attempts(draft: Draft) -> list[dict[str, Any]]:
    return list(draft.data.get("attempts", ()))


def shown_mistake(mistake: Mapping[str, Any]) -> dict[str, str]:
    """A mistake as checker and judges see it."""
    return {"title": mistake["title"], "description": mistake["description"]}


def _attempt_for_writer(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """A variant as the writer sees it for reflection."""
    results = []
    for result in attempt["results"]:
        results.append({"response": result["response"], "repeated": False, "refused": bool(result.get("refused"))})
    gives_away = [finding["text"] for finding in attempt["gives_away"]]
    return {"scenario": attempt["scenario"], "gives_away": gives_away, "results": results}


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
    traps: tuple[str, ...] = ()
    if category:
        traps = (category,)
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
        rubrics=(NewRubric(RUBRIC, chosen["must"], traps),),
        prompt=chosen["prompt"],
        provenance=_data_card(draft, bool(chosen["replicated"])),
    )


def _data_card(draft: Draft, replicated: bool) -> dict[str, str]:
    """Entries of the data card: how the sample was made."""
    values, title = settings(draft), draft.data["mistake"]["title"]
    review, reviewers, repeated = _("not sampled"), "none", _("no")
    if draw_fraction("review", draft.record.external_id, title) < values["review_share"]:
        review, reviewers = _("sampled"), values["reviewers"]
    if replicated:
        repeated = _("yes")
    entries = {_("review"): review, _("reviewers"): reviewers, _("replicated"): repeated}
    if is_published(draft):
        return {**entries, _("origin"): _("published")}
    checked_by = _("code")
    if values["check"] == "model":
        checked_by = _("code and model")
    return {
        **entries,
        _("origin"): _("made here"),
        _("mistakes merged"): str(max(1, len(draft.data["mistake"].get("members", ())))),
        _("scenarios tried"): str(len(_attempts(draft))),
        _("checked by"): checked_by,
    }


def text_to_compare(new_sample: NewSample) -> str:
    """The text that no two samples may share.

    It includes the mistake, as two mistakes of one conversation may have nearly the same scenario.
    """
    mistake = new_sample.content["mistake"]
    return "\n".join((mistake["title"], mistake["description"], new_sample.content["scenario"]))
