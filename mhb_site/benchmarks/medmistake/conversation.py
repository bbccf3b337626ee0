"""From a case to mistakes: conversation, committee, extraction.

A draft's data: ``case`` (the record's content), ``conversation`` [{role: 'patient' | 'doctor',
text, invented: [values that the patient made up]}], ``doctor`` (the name of its model), ``asked``
(how often a speaker was asked), ``silent`` (empty replies in a row), ``ended`` ('patient' |
'limit' | 'published'); then ``scores`` {judge: {dimension: {score, turns, note}}}, ``unscored``
{judge: [dimension]}, ``rounds`` {judge: calls}, ``rule`` (the settings that define a low score); then, one draft per mistake,
``mistake`` {title, description, category, reason, tags, risk, turns}. Turns are numbered from 1,
including the patient's.

A record of kind `conversation` (MedPI) was published: it is judged as it is, unless it brings its
own scores.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any, Literal

from generation.common.medical_text import text_key
from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import check_whole
from generation.llm.types import Message
from generation.recipes.prompts import read_prompts
from generation.recipes.recipe import Draft, Dropped, Models, ReplyShape, Step
from mhb_site.benchmarks.medmistake.dimensions import Dimension, anchors, category_of, dimensions_in_force
from mhb_site.benchmarks.medmistake.presets import settings
from mhb_site.benchmarks.medmistake.replication import GENERATED
from mhb_site.benchmarks.medmistake.taxonomy import NAMES, RISKS, code_of

SETS = read_prompts(Path(__file__).parent / "prompts", "patient", "doctor", "committee", "extract")

CASE, CONVERSATION = "case", "conversation"
JUDGES = ("judge_1", "judge_2")
# The patient's mark, at the end or the beginning of any line ("[END] Goodbye"); what follows it was
# not said to anybody.
_MARK = r"[\[【［] ?END ?[\]】］]"
END = re.compile(rf"^[ \t*_`]{{0,20}}{_MARK}|{_MARK}[ \t.!*_`\"'”’。！)]{{0,20}}$", re.MULTILINE | re.IGNORECASE)
MARK = re.compile(_MARK, re.IGNORECASE)
# A value that the case does not contain; the doctor sees it without the mark.
INVENTED = re.compile(r"[\[【［] ?invented ?[:：]\s*+([^\[\]【】［］\n]{1,200})[\]】］]", re.IGNORECASE)
MAX_TURN = 8_000  # characters
MAX_SILENT = 3  # empty replies in a row, after which the visit is given up
MAX_TAGS = 10
MAX_MISTAKES = 40  # of a conversation: each becomes a draft, which asks models about a dozen times
MAX_FIELD = 2_000  # characters of each text about a mistake
ESTIMATED_TURNS = 12  # turns per conversation in the estimate of a launch


class Score(ReplyShape):
    """One dimension: a whole number, or null where it does not apply; the doctor's turns; a note."""

    dimension: str
    score: int | None
    turns: tuple[int, ...] = ()
    note: str = ""


class Scores(ReplyShape):
    """One entry for each dimension."""

    scores: tuple[Score, ...]


class Mistake(ReplyShape):
    """One mistake of the doctor."""

    title: str
    description: str
    category: str
    reason: str
    tags: tuple[str, ...] = ()
    risk: Literal["low", "medium", "high", "critical"]
    turns: tuple[int, ...]


class Mistakes(ReplyShape):
    """All mistakes of the conversation, each once."""

    mistakes: tuple[Mistake, ...]


def is_generated(draft: Draft) -> bool:
    return draft.record.content.get("kind") in GENERATED


# ------------------------------------------------------------------------------------- conversation


async def converse(draft: Draft, models: Models) -> Sequence[Draft]:
    """Add one turn: the patient's, then the doctor's."""
    turns = list(draft.data.get("conversation", ()))
    case = dict(draft.record.content)
    case.pop("kind", None)
    data: dict[str, Any] = {"case": case, "doctor": models.model("doctor"), **draft.data}
    role = "patient"
    if turns and turns[-1]["role"] == "patient":
        role = "doctor"
    history = []
    for turn in turns:
        if turn["role"] == role:
            history.append(Message("assistant", turn["text"]))
        else:
            history.append(Message("user", turn["text"]))
    asked, silent = data.get("asked", len(turns)), data.get("silent", 0)
    # An empty reply must not be found in the ledger again, so each try is a request of its own.
    request = SETS[draft.prompts][role].request({"case": data["case"]}, repeat=silent)
    request = replace(request, messages=(*request.messages, *history))
    reply = check_whole(await models.ask(role, request)).text.strip()
    end = None
    if role == "patient":
        end = END.search(reply)
    if end:
        reply = reply[: end.start()]
    text = MARK.sub("", reply).strip()
    invented = INVENTED.findall(text)
    text = INVENTED.sub(r"\1", text)
    if text:
        new_turn: dict[str, Any] = {"role": role, "text": text[:MAX_TURN]}
        if role == "patient" and invented:
            new_turn["invented"] = invented
        turns.append(new_turn)
        silent = 0
    else:
        silent += 1
    data |= {"asked": asked + 1, "silent": silent}
    if end:
        data["ended"] = "patient"
    elif silent >= MAX_SILENT:
        raise Dropped(f"The {role} answered nothing, {MAX_SILENT} times in a row.")
    elif data["asked"] >= max(2, settings(draft)["most_turns"]):
        data["ended"] = "limit"
    if "ended" in data and not any(turn["role"] == "doctor" for turn in turns):
        raise Dropped("The visit ended before the doctor had said anything.")
    return [replace(draft, data={**data, "conversation": turns})]


def _turn_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    speakers = [(role, SETS[draft.prompts][role].label) for role in ("patient", "doctor")]
    return speakers * int(min(ESTIMATED_TURNS, settings(draft)["most_turns"]) // 2)


async def take_conversation(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Use a published conversation unchanged; its scores, if any, count as those of one judge."""
    content = draft.record.content
    data: dict[str, Any] = {
        "case": {"patient": content.get("patient", {}), "encounter": content.get("encounter", {})},
        "conversation": list(content["conversation"]),
        "doctor": content.get("doctor", ""),
        "ended": "published",
    }
    if content.get("scores"):
        names = ("dimension", "category", "score", "note")
        data["published"] = []
        for entry in content["scores"]:
            data["published"].append({name: entry[name] for name in names})
    return [replace(draft, data=data)]


# ---------------------------------------------------------------------------------------- committee


async def _score_dimensions(draft: Draft, models: Models, *, judge: str) -> Sequence[Draft]:
    """Make one call to a judge, for dimensions that it has not covered yet."""
    values, turns = settings(draft), draft.data["conversation"]
    scored = dict(draft.data.get("scores", {}).get(judge, {}))
    dimensions = {dimension.key: dimension for dimension in dimensions_in_force(draft.prompts)}
    remaining = [dimension for key, dimension in dimensions.items() if key not in scored]
    requested = remaining[: max(1, values["dimensions_per_call"])]
    calls = draft.data.get("rounds", {}).get(judge, 0)
    request = SETS[draft.prompts]["committee"].request(
        {
            "case": draft.data["case"],
            "conversation": numbered_turns(turns),
            "dimensions": [asdict(dimension) for dimension in requested],
        },
        {"scale": str(values["scale"]), "anchors": anchors(values["scale"]), "low": str(values["low"])},
        # Keeps replies apart if both judges are one model, or if a judge is asked again.
        repeat=JUDGES.index(judge) + len(JUDGES) * calls,
    )
    check = partial(_check_scores, dimensions=requested, turns=turns, scale=values["scale"], low=values["low"])
    reply = await models.ask_structured(judge, request, Scores, check=check)
    for entry in reply.scores:
        scored[entry.dimension] = {
            "score": entry.score,
            "turns": sorted(set(entry.turns)),
            "note": entry.note.strip(),
            "category": dimensions[entry.dimension].category,
        }
    missing = [key for key in dimensions if key not in scored]
    data = {}
    for name, value in (("scores", scored), ("rounds", calls + 1), ("unscored", missing)):
        data[name] = {**draft.data.get(name, {}), judge: value}
    rule = {name: values[name] for name in ("scale", "low", "pooling")}
    return [draft.extended(**data, rule=rule)]


def _check_scores(
    reply: Scores, *, dimensions: Sequence[Dimension], turns: Sequence[Mapping[str, str]], scale: int, low: int
) -> None:
    """Raises BrokenReply with what is wrong. Missing dimensions are requested again."""
    keys, seen = {dimension.key for dimension in dimensions}, set[str]()
    for entry in reply.scores:
        if entry.dimension not in keys:
            raise BrokenReply(f"There is no dimension {entry.dimension[:60]!r} in DIMENSIONS.")
        if entry.dimension in seen:
            raise BrokenReply(f"The dimension {entry.dimension!r} is there twice.")
        seen.add(entry.dimension)
        if entry.score is None:
            continue
        if not 1 <= entry.score <= scale:
            raise BrokenReply(f"The score of {entry.dimension!r} is not from 1 to {scale}.")
        if entry.score <= low and not entry.note.strip():
            raise BrokenReply(f"{entry.dimension!r} has a score of {entry.score} and no note.")
        _check_turns(entry.turns, turns, f"the dimension {entry.dimension!r}", needed=entry.score <= low)
    if not seen:
        raise BrokenReply("No dimension was scored.")


def _check_turns(
    turn_numbers: Sequence[int], turns: Sequence[Mapping[str, str]], subject: str, *, needed: bool
) -> None:
    doctor_turns = {number for number, turn in enumerate(turns, 1) if turn["role"] == "doctor"}
    if wrong := sorted(set(turn_numbers) - doctor_turns):
        raise BrokenReply(f"Turn {wrong[0]} of {subject} is not a turn of the doctor.")
    if needed and not turn_numbers:
        raise BrokenReply(f"Name the doctor's turns of {subject}.")


def _has_unscored(draft: Draft, *, judge: str) -> bool:
    limit = _calls_for_all(draft) - 1 + settings(draft)["judge_calls"]
    return bool(draft.data["unscored"][judge]) and draft.data["rounds"][judge] < limit


def _calls_for_all(draft: Draft) -> int:
    """The calls to a judge that cover all dimensions once."""
    per_call: int = settings(draft)["dimensions_per_call"]
    return ceil(len(dimensions_in_force(draft.prompts)) / max(1, per_call))


def _judge_prompts(draft: Draft, *, judge: str) -> Sequence[tuple[str, str]]:
    return [(judge, SETS[draft.prompts]["committee"].label)] * _calls_for_all(draft)


def numbered_turns(turns: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The turns with their numbers and speakers, as prompts show them."""
    numbered = []
    for number, turn in enumerate(turns, 1):
        numbered.append({"turn": number, "speaker": turn["role"], "text": turn["text"]})
    return numbered


# --------------------------------------------------------------------------------------- extraction


def low_scores(data: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The judges' entries for dimensions with a low score, both judges' if they disagree."""
    if not data.get("published"):
        return list(_low_scores(data.get("scores", {}), values))
    low = []
    for entry in data["published"]:
        if entry["score"] is not None and entry["score"] <= values["low"]:
            low.append({**entry, "judge": "published", "turns": []})
    return low


def _low_scores(scores: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key in dict.fromkeys(chain.from_iterable(scores.values())):
        by_judge = {judge: scores[judge][key] for judge in scores if key in scores[judge]}
        scored = [entry["score"] for entry in by_judge.values() if entry["score"] is not None]
        if not scored:
            continue
        low_flags = [score <= values["low"] for score in scored]
        match values["pooling"]:
            case "both":
                is_low = all(low_flags)
            case "mean":
                is_low = sum(scored) / len(scored) <= values["low"]
            case _:
                is_low = any(low_flags)
        if is_low:
            for judge, entry in by_judge.items():
                yield {**entry, "dimension": key, "category": category_of(key, entry), "judge": judge}


async def extract(draft: Draft, models: Models) -> Sequence[Draft]:
    """Extract the mistakes, one draft each.

    Raises Dropped if no score is low, or if the extractor finds no mistake.
    """
    values = settings(draft)
    notes = low_scores(draft.data, values)
    if not notes:
        raise Dropped(f"No dimension was scored {values['low']} or less.")
    turns = draft.data["conversation"]
    request = SETS[draft.prompts]["extract"].request(
        {
            "case": draft.data["case"],
            "conversation": numbered_turns(turns),
            "notes": notes,
            "categories": NAMES,
        },
        {"risks": "\n".join(f"- {level.value}: {level.about}" for level in RISKS)},
    )
    check = partial(_check_mistakes, turns=turns)
    reply = await models.ask_structured("extractor", request, Mistakes, check=check)
    if not reply.mistakes:
        raise Dropped("The extractor found no clinically significant mistake.")
    return [draft.extended(mistake=_mistake_data(mistake)) for mistake in reply.mistakes]


def _mistake_data(mistake: Mistake) -> dict[str, Any]:
    tags = [tag.strip() for tag in mistake.tags if tag.strip()]
    return {
        "title": mistake.title.strip(),
        "description": mistake.description.strip(),
        "reason": mistake.reason.strip(),
        "category": code_of(mistake.category),
        "tags": list(dict.fromkeys(tags)),
        "risk": mistake.risk,
        "turns": sorted(set(mistake.turns)),
    }


def _check_mistakes(reply: Mistakes, *, turns: Sequence[Mapping[str, str]]) -> None:
    """Raises BrokenReply with what is wrong."""
    codes = {code_of(name) for name in NAMES}
    if len(reply.mistakes) > MAX_MISTAKES:
        raise BrokenReply(f"There are {len(reply.mistakes)} mistakes; at most {MAX_MISTAKES}: group them.")
    for number, mistake in enumerate(reply.mistakes, 1):
        for name in ("title", "description"):
            if not getattr(mistake, name).strip():
                raise BrokenReply(f"The {name} of mistake {number} is empty.")
        if max(map(len, (mistake.title, mistake.description, mistake.reason, *mistake.tags))) > MAX_FIELD:
            raise BrokenReply(f"A text of mistake {number} is longer than {MAX_FIELD} characters.")
        if code_of(mistake.category) not in codes:
            raise BrokenReply(f"The category of mistake {number}, {mistake.category[:60]!r}, is not one of CATEGORIES.")
        if len(mistake.tags) > MAX_TAGS:
            raise BrokenReply(f"Mistake {number} has more than {MAX_TAGS} tags.")
        _check_turns(mistake.turns, turns, f"mistake {number}", needed=True)
    if len({text_key(mistake.title) for mistake in reply.mistakes}) < len(reply.mistakes):
        raise BrokenReply("Two mistakes have the same title: group them.")


def _begins_with_case(draft: Draft) -> bool:
    return bool(draft.record.content.get("kind") == CASE)


def _begins_with_conversation(draft: Draft) -> bool:
    return bool(draft.record.content.get("kind") == CONVERSATION)


def _goes_on(draft: Draft) -> bool:
    return "ended" not in draft.data


def _is_scored_here(draft: Draft) -> bool:
    return is_generated(draft) and not draft.data.get("published")


def _extract_prompts(draft: Draft) -> list[tuple[str, str]]:
    return [("extractor", SETS[draft.prompts]["extract"].label)]


def _score_step(judge: str) -> Step:
    return Step(
        judge,
        partial(_score_dimensions, judge=judge),
        _is_scored_here,
        partial(_judge_prompts, judge=judge),
        again=partial(_has_unscored, judge=judge),
    )


STEPS: tuple[Step, ...] = (
    Step("converse", converse, _begins_with_case, _turn_prompts, again=_goes_on),
    Step("take_conversation", take_conversation, _begins_with_conversation),
    *map(_score_step, JUDGES),
    Step("extract", extract, is_generated, _extract_prompts),
)
