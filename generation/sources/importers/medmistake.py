"""MedMistake: single-shot scenarios that repeat mistakes of models, as two JSON arrays with different columns.

``medmistake-all.json`` has `mistake_title`, `all_tested_scenarios` and what was tried; ``medmistake-validated.json`` has ids,
`mistake_name`, `mistake_description` and `mistake_tags`. Their common columns are not published, so several names are
understood for each value (`_NAMES`); what a file has is named where none of them is found.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
    LOOK,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    array_items,
    check_storable,
    checked_id,
    first_byte,
    gettext_noop,
    one_line,
    spoken,
)

name = "medmistake"
label = "MedMistake"
licence = "CC-BY-4.0"
citation = (
    "Proniakin O, Fajardo D, Nazarenko R, Marinescu R. Automatic Replication of LLM Mistakes in Medical Conversations."
    " arXiv:2512.20983 (2025)."
)
restrictions = gettext_noop(
    "made by models; published scenarios were chosen because GPT-5 or Gemini 2.5 Pro fails them"
)

# Value -> the columns under which it is looked for, in this order, whatever their case, spaces and underscores.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "title": ("mistake_title", "mistake_name", "title"),
    "description": ("mistake_description", "description"),
    "category": ("mistake_category", "category"),
    "reason": ("mistake_reason", "probable_reason", "reason"),
    "tags": ("mistake_tags", "tags"),
    "risk": ("mistake_risk", "risk_level", "risk"),
    "scenario": ("scenario", "mistake_scenario", "clinical_scenario", "single_shot_scenario", "question", "prompt"),
    "must": ("must", "expected_behavior", "expected_answer", "correct_answer", "correct_behavior", "answer"),
    "doctor": ("doctor", "doctor_model", "source_model"),
    "model": ("model", "model_name", "tested_model"),
    "response": ("response", "model_response"),
    "same": ("same_mistake_happened", "replicated", "mistake_replicated"),
    "rationale": ("rationale", "explanation", "judge_rationale"),
    "tested": ("all_tested_scenarios", "tested_scenarios"),
    "case": ("case_id",),
    "mistake": ("mistake_id", "id"),
    "file": ("source_file", "file"),
    "conversation": ("conversation", "messages", "turns"),
    "error": ("error",),
    "success": ("success_reason",),
}
RISKS = ("low", "medium", "high", "critical")
MOST_TAGS = 10
_PATIENT, _DOCTOR = frozenset({"patient", "user"}), frozenset({"doctor", "assistant", "clinician", "physician", "ai"})


def sniff(path: Path) -> Layout:
    """Raises WrongFormat with the columns that were found, unless an early record has a mistake and a scenario."""
    if first_byte(path) != b"[":
        raise WrongFormat("It is not a JSON array; MedMistake is one, of one object for each mistake.")
    problem = "It is an empty array."
    with path.open("rb") as file:
        for place, value in enumerate(_items(file), 1):
            if isinstance(value, Malformed):
                problem = f"Record {place}: {value}"
            elif not isinstance(value, dict):
                problem = f"Record {place} of the array is not a JSON object."
            elif missing := _missing(value):
                problem = f"Its records lack {missing}; found: {', '.join(sorted(map(str, value)))[:300]}."
            else:
                return Layout("all" if "tested" in _read(value) else "validated")
            if place == LOOK:
                break
    raise WrongFormat(problem)


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: {kind: 'mistake-scenario', scenario, must, mistake: {title, description, category, reason, tags, risk,
    turns, members}, doctor, targets: [str], replicated, conversation: [{role, text}], attempts: [...], validated}.

    `attempts` are the tested scenarios, each with its results; Row.private is empty.
    """
    if layout.name not in ("all", "validated"):
        raise WrongFormat(f"There is no layout {layout.name!r} of MedMistake.")
    return _rows(path, layout.name)


def _rows(path: Path, layout: str) -> Iterator[Row | Refusal]:
    if first_byte(path) != b"[":
        raise WrongFormat("It is not a JSON array.")
    with path.open("rb") as file:
        for place, value in enumerate(_items(file), 1):
            yield _row(value, f"record {place}", layout)


def _items(file: Any) -> Iterator[Any]:
    """The records; where the array breaks off, the last one says so."""
    try:
        yield from array_items(file)
    except Malformed as error:
        yield error


def _plain(column: str) -> str:
    return "".join(sign for sign in column.casefold() if sign.isalnum())


_KNOWN = {_plain(column): (value, at) for value, columns in _NAMES.items() for at, column in enumerate(columns)}


def _read(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record has by our names; of several columns for one value the first that says anything."""
    found: dict[str, tuple[int, Any]] = {}
    for column, value in record.items():
        known = _KNOWN.get(_plain(str(column)))
        if known and value not in (None, "") and (known[0] not in found or known[1] < found[known[0]][0]):
            found[known[0]] = (known[1], value)
    return {name: value for name, (_at, value) in found.items()}


def _missing(record: Mapping[str, Any]) -> str:
    """What no column gives, in words; '' if nothing is missing."""
    has = _read(record)
    wanted = {"title": "mistake_title or mistake_name", "scenario": "a scenario or all_tested_scenarios"}
    missing = [words for value, words in wanted.items() if value not in has]
    if "scenario" not in has and "tested" in has:
        missing.remove(wanted["scenario"])
    return " and ".join(missing)


def _row(value: Any, where: str, layout: str) -> Row | Refusal:
    try:
        if isinstance(value, Malformed):
            raise value
        if not isinstance(value, dict):
            raise Malformed("The record is not a JSON object.")
        if missing := _missing(value):
            raise Malformed(f"It lacks {missing}.")
        has = _read(value)
        attempts = _attempts(has)
        title = _text(has, "title")
        chosen = next((each for each in attempts if each["replicated"]), attempts[-1])
        content: dict[str, Any] = {
            "kind": "mistake-scenario",
            "scenario": _text(has, "scenario") if "scenario" in has else chosen["scenario"],
            "must": _text(has, "must"),
            "mistake": _mistake(has, title),
            "doctor": _text(has, "doctor"),
            "targets": list(
                dict.fromkeys(each["model"] for one in attempts for each in one["results"] if each["model"])
            ),
            "replicated": chosen["replicated"] or layout == "validated",
            "conversation": _conversation(has.get("conversation")),
            "attempts": attempts,
            "validated": layout == "validated",
        }
        # The judge needs to be told what is right: without words of the authors, that is not to make the mistake.
        content["must"] = (
            content["must"] or f"The answer must not make this mistake: {content['mistake']['description']}"
        )
        check_storable(content)
        return Row(
            external_id=_id(has, title, content["scenario"]),
            title=one_line(title),
            **spoken(content["scenario"]),
            content=content,
            private={},
            where=where,
            facets={name: found for name in ("category", "risk") if (found := content["mistake"][name])},
        )
    except Malformed as error:
        return Refusal(where, str(error))


def _text(has: Mapping[str, Any], name: str) -> str:
    value = has.get(name, "")
    if not isinstance(value, str):
        raise Malformed(f"'{_NAMES[name][0]}' is not a text.")
    return value.strip()


def _mistake(has: Mapping[str, Any], title: str) -> dict[str, Any]:
    risk = _text(has, "risk").casefold()
    if risk and risk not in RISKS:
        raise Malformed(f"The risk is none of {', '.join(RISKS)}.")
    return {
        "title": title,
        "description": _text(has, "description") or _text(has, "rationale") or title,
        "category": "-".join(_text(has, "category").casefold().split()),  # a code of the taxonomy
        "reason": _text(has, "reason"),
        "tags": _tags(has.get("tags")),
        "risk": risk,
        "turns": [],
        "members": [],
    }


def _tags(tags: Any) -> list[str]:
    if isinstance(tags, str):
        tags = tags.split(",")
    if tags is None:
        return []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Malformed("'mistake_tags' is not a list of texts.")
    return [tag.strip() for tag in tags if tag.strip()][:MOST_TAGS]


def _attempts(has: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tested scenarios, one for each text, with the results of all models; at least the record's own."""
    tested = has.get("tested", [])
    if not isinstance(tested, list):
        raise Malformed("'all_tested_scenarios' is not a list.")
    found: dict[str, list[dict[str, Any]]] = {}
    for place, each in enumerate([*tested, *([dict(has)] if "scenario" in has else [])], 1):
        if isinstance(each, str):
            each = {"scenario": each}
        if not isinstance(each, dict):
            raise Malformed(f"Tested scenario {place} is not an object.")
        one = _read(each) if place <= len(tested) else each
        text = _text(one, "scenario")
        if not text:
            raise Malformed(f"Tested scenario {place} has no text.")
        results = found.setdefault(text, [])
        result = _result(one, place)
        if result is not None and result not in results:
            results.append(result)
    if not found:
        raise Malformed("'all_tested_scenarios' is empty, and there is no other scenario.")
    return [
        {
            "number": number,
            "scenario": text,
            "must": "",
            "prompt": "",
            "gives_away": [],
            "results": results,
            "replicated": any(each["same_mistake_happened"] is True for each in results),
        }
        for number, (text, results) in enumerate(found.items(), 1)
    ]


def _result(one: Mapping[str, Any], place: int) -> dict[str, Any] | None:
    """A model's answer to a tested scenario; None where the file says nothing of one."""
    same = one.get("same")
    if same is not None and not isinstance(same, bool):
        raise Malformed(f"'same_mistake_happened' of tested scenario {place} is neither true nor false.")
    if same is None and "response" not in one:
        return None
    told = [_text(one, name) for name in ("rationale", "success", "error") if name in one]
    return {
        "role": "",
        "model": _text(one, "model"),
        "response": _text(one, "response"),
        "same_mistake_happened": same,
        "explanation": " ".join(filter(None, told)),
    }


def _conversation(turns: Any) -> list[dict[str, str]]:
    if not turns:
        return []
    if not isinstance(turns, list):
        raise Malformed("'conversation' is not a list of turns.")
    found = []
    for place, turn in enumerate(turns, 1):
        role = str(turn.get("role", turn.get("speaker", ""))).casefold() if isinstance(turn, dict) else ""
        text = turn.get("text", turn.get("content")) if isinstance(turn, dict) else None
        if not isinstance(text, str) or role not in _PATIENT | _DOCTOR:
            raise Malformed(f"Turn {place} of the conversation has no text, or its role is neither patient nor doctor.")
        found.append({"role": "patient" if role in _PATIENT else "doctor", "text": text})
    return found


def _id(has: Mapping[str, Any], title: str, scenario: str) -> str:
    """The id of the file, if it has one; else a digest of title and scenario."""
    parts = [str(has[name]) for name in ("case", "mistake") if isinstance(has.get(name), str | int)]
    if parts and "mistake" in has:
        return checked_id("-".join(parts))
    return hashlib.sha256(f"{title}\x1f{scenario}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
