"""MedMistake: single-shot scenarios that repeat mistakes of models, as two JSON arrays.

``medmistake-all.json`` has `mistake_title`, `all_tested_scenarios` and the attempts;
``medmistake-validated.json`` has ids, `mistake_name`, `mistake_description` and `mistake_tags`.
Their common columns are not documented, so several names are accepted for each value
(`_COLUMN_NAMES`); if none of them is found, the message lists the file's columns.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    checked_id,
    gettext_noop,
    language_fields,
    one_line,
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

# Value -> column names accepted for it, in order of preference; case, spaces and underscores are
# ignored.
_COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
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
MAX_TAGS = 10
_PATIENT, _DOCTOR = frozenset({"patient", "user"}), frozenset({"doctor", "assistant", "clinician", "physician", "ai"})


def sniff(path: Path) -> Layout:
    """Raises WrongFormat, naming the columns, unless an early record is complete."""
    FORMAT.sniff(path)
    for _where, record in islice(tabular.records(path, tabular.ARRAY), SNIFF_LIMIT):
        if isinstance(record, dict) and not _missing(record):
            return Layout("all" if "tested" in _known_values(record) else "validated")
    raise WrongFormat("It is an array without mistakes.")


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each mistake scenario."""
    name = layout.name if layout.name in ("all", "validated") else ""
    read = partial(_row, is_validated=name == "validated")
    return replace(FORMAT, read=read, layouts={tabular.ARRAY: name}).rows(path, layout)


def _normalized(column: str) -> str:
    return "".join(character for character in column.casefold() if character.isalnum())


_VALUE_OF_COLUMN = {
    _normalized(column): (value, at) for value, columns in _COLUMN_NAMES.items() for at, column in enumerate(columns)
}


def _known_values(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record's values by our names; each from the first of its columns that is not empty."""
    values: dict[str, tuple[int, Any]] = {}
    for column, value in record.items():
        match = _VALUE_OF_COLUMN.get(_normalized(str(column)))
        if match and value not in (None, "") and (match[0] not in values or match[1] < values[match[0]][0]):
            values[match[0]] = (match[1], value)
    return {name: value for name, (_at, value) in values.items()}


def _missing(record: Mapping[str, Any]) -> str:
    """The required values that no column gives, and the columns; '' if none is missing."""
    missing = _missing_values(record)
    return f"{missing}; found: {', '.join(sorted(map(str, record)))[:300]}" if missing else ""


def _missing_values(record: Mapping[str, Any]) -> str:
    values = _known_values(record)
    required = {"title": "mistake_title or mistake_name", "scenario": "a scenario or all_tested_scenarios"}
    missing = [words for value, words in required.items() if value not in values]
    if "scenario" not in values and "tested" in values:
        missing.remove(required["scenario"])
    return " and ".join(missing)


def _row(record: dict[str, Any], _split: str, *, is_validated: bool = False) -> Row:
    """Row.content: {kind: 'mistake-scenario', scenario, must, mistake, doctor, targets: [str],
    replicated, conversation: [{role, text}], attempts: [...], validated}.

    mistake: {title, description, category, reason, tags, risk, turns, members}. `attempts` are the
    tested scenarios, each with its results.
    """
    if missing := _missing_values(record):
        raise Malformed(f"It lacks {missing}.")
    values = _known_values(record)
    attempts = _attempts(values)
    title = _text(values, "title")
    chosen = next((attempt for attempt in attempts if attempt["replicated"]), attempts[-1])
    content: dict[str, Any] = {
        "kind": "mistake-scenario",
        "scenario": _text(values, "scenario") if "scenario" in values else chosen["scenario"],
        "must": _text(values, "must"),
        "mistake": _mistake(values, title),
        "doctor": _text(values, "doctor"),
        "targets": list(
            dict.fromkeys(
                attempt["model"] for attempt in attempts for attempt in attempt["results"] if attempt["model"]
            )
        ),
        "replicated": chosen["replicated"] or is_validated,
        "conversation": _conversation(values.get("conversation")),
        "attempts": attempts,
        "validated": is_validated,
    }
    # The judge must be told what is right. If the authors do not say, it is not making the
    # mistake.
    content["must"] = content["must"] or f"The answer must not make this mistake: {content['mistake']['description']}"
    return Row(
        external_id=_id(values, title, content["scenario"]),
        title=one_line(title),
        **language_fields(content["scenario"]),
        content=content,
        facets={name: text for name in ("category", "risk") if (text := content["mistake"][name])},
    )


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    if not isinstance(value, str):
        raise Malformed(f"'{_COLUMN_NAMES[name][0]}' is not a text.")
    return value.strip()


def _mistake(values: Mapping[str, Any], title: str) -> dict[str, Any]:
    risk = _text(values, "risk").casefold()
    if risk and risk not in RISKS:
        raise Malformed(f"The risk is not one of {', '.join(RISKS)}.")
    return {
        "title": title,
        "description": _text(values, "description") or _text(values, "rationale") or title,
        # A code of the taxonomy.
        "category": "-".join(_text(values, "category").casefold().split()),
        "reason": _text(values, "reason"),
        "tags": _tags(values.get("tags")),
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
    return [tag.strip() for tag in tags if tag.strip()][:MAX_TAGS]


def _attempts(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The distinct scenarios, the record's own among them, with the results of all models."""
    tested = values.get("tested", [])
    if not isinstance(tested, list):
        raise Malformed("'all_tested_scenarios' is not a list.")
    results_by_text: dict[str, list[dict[str, Any]]] = {}
    for place, item in enumerate([*tested, *([dict(values)] if "scenario" in values else [])], 1):
        if isinstance(item, str):
            item = {"scenario": item}
        if not isinstance(item, dict):
            raise Malformed(f"Tested scenario {place} is not an object.")
        scenario = _known_values(item) if place <= len(tested) else item
        text = _text(scenario, "scenario")
        if not text:
            raise Malformed(f"Tested scenario {place} has no text.")
        results = results_by_text.setdefault(text, [])
        result = _result(scenario, place)
        if result is not None and result not in results:
            results.append(result)
    if not results_by_text:
        raise Malformed("'all_tested_scenarios' is empty, and there is no other scenario.")
    return [
        {
            "number": number,
            "scenario": text,
            "must": "",
            "prompt": "",
            "gives_away": [],
            "results": results,
            "replicated": any(item["same_mistake_happened"] is True for item in results),
        }
        for number, (text, results) in enumerate(results_by_text.items(), 1)
    ]


def _result(scenario: Mapping[str, Any], place: int) -> dict[str, Any] | None:
    """A model's answer to a tested scenario; None if the file has none."""
    same = scenario.get("same")
    if same is not None and not isinstance(same, bool):
        raise Malformed(f"'same_mistake_happened' of tested scenario {place} is neither true nor false.")
    if same is None and "response" not in scenario:
        return None
    explanations = [_text(scenario, name) for name in ("rationale", "success", "error") if name in scenario]
    return {
        "role": "",
        "model": _text(scenario, "model"),
        "response": _text(scenario, "response"),
        "same_mistake_happened": same,
        "explanation": " ".join(filter(None, explanations)),
    }


def _conversation(turns: Any) -> list[dict[str, str]]:
    if not turns:
        return []
    if not isinstance(turns, list):
        raise Malformed("'conversation' is not a list of turns.")
    result = []
    for place, turn in enumerate(turns, 1):
        role = str(turn.get("role", turn.get("speaker", ""))).casefold() if isinstance(turn, dict) else ""
        text = turn.get("text", turn.get("content")) if isinstance(turn, dict) else None
        if not isinstance(text, str) or role not in _PATIENT | _DOCTOR:
            raise Malformed(f"Turn {place} of the conversation has no text, or its role is neither patient nor doctor.")
        result.append({"role": "patient" if role in _PATIENT else "doctor", "text": text})
    return result


def _id(values: Mapping[str, Any], title: str, scenario: str) -> str:
    """The record's id in the file, else a digest of title and scenario."""
    parts = [str(values[name]) for name in ("case", "mistake") if isinstance(values.get(name), str | int)]
    if parts and "mistake" in values:
        return checked_id("-".join(parts))
    return hashlib.sha256(f"{title}\x1f{scenario}".encode("utf-8", "surrogatepass")).hexdigest()[:24]


FORMAT = tabular.RecordFormat(label, _row, _missing, tabular.identity(tabular.ARRAY))
