"""HealthBench (OpenAI): one conversation a line, with the rubrics of its grader.

The full, consensus and hard files have this shape. The meta-eval file has not, and is refused with
a message that names it.
"""

from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Malformed,
    Row,
    gettext_noop,
    language_fields,
    one_line,
    required_id,
)

name = "healthbench"
label = "HealthBench"
licence = "MIT"
citation = (
    "Arora RK, Wei J, Soskin Hicks R, et al. HealthBench: Evaluating Large Language Models Towards Improved Human"
    " Health. arXiv:2505.08775 (2025)."
)
restrictions = gettext_noop("contamination canary: do not publish the text")
withheld = True

_META_EVAL = (
    "HealthBench meta-eval: physicians' verdicts on finished replies, one criterion each;"
    " what can be imported is conversations with rubrics."
)


def _other(record: dict[str, Any]) -> str:
    return _META_EVAL if "rubrics" not in record and {"completion", "rubric"} <= record.keys() else ""


def _row(record: dict[str, Any], _split: str) -> Row:
    """Row.content: {kind: 'dialogue', turns, rubrics, tags: [str], ideal_completion: str | None}.

    turns: [{role, content}]; rubrics: [{criterion, points, tags}]. Row.private: {canary} if there
    is one.
    """
    if meta_eval := _other(record):
        raise Malformed(f"This is a row of {meta_eval}")
    turns = _turns(record.get("prompt"))
    user_texts = [turn["content"] for turn in turns if turn["role"] == "user"]
    return Row(
        external_id=required_id(record, "prompt_id"),
        title=one_line(user_texts[0]),
        **language_fields("\n".join(user_texts)),
        content={
            "kind": "dialogue",
            "turns": turns,
            "rubrics": _rubrics(record.get("rubrics")),
            "tags": _tags(record.get("example_tags"), "'example_tags'"),
            "ideal_completion": _ideal_completion(record.get("ideal_completions_data")),
        },
        private={"canary": record["canary"]} if record.get("canary") else {},
    )


def _turns(prompt: Any) -> list[dict[str, str]]:
    if not isinstance(prompt, list) or not prompt:
        raise Malformed("'prompt' is not a list of turns.")
    turns = []
    for place, turn in enumerate(prompt, 1):
        if not isinstance(turn, dict):
            raise Malformed(f"Turn {place} is not an object.")
        if turn.get("role") not in ("user", "assistant"):
            raise Malformed(f"The role of turn {place} is neither 'user' nor 'assistant'.")
        content = turn.get("content")
        if not isinstance(content, str) or not content.strip():
            raise Malformed(f"Turn {place} has no text.")
        turns.append({"role": turn["role"], "content": content})
    if turns[-1]["role"] != "user":
        raise Malformed("The conversation does not end with the user.")
    return turns


def _rubrics(rubrics: Any) -> list[dict[str, Any]]:
    if not isinstance(rubrics, list):
        raise Malformed("'rubrics' is not a list.")
    result = []
    for place, rubric in enumerate(rubrics, 1):
        if not isinstance(rubric, dict):
            raise Malformed(f"Rubric {place} is not an object.")
        criterion, points = rubric.get("criterion"), rubric.get("points")
        if not isinstance(criterion, str) or not criterion.strip():
            raise Malformed(f"Rubric {place} has no criterion.")
        # Published points are -10 to 10. The bound excludes NaN, infinity and integers too large
        # for a database column.
        if isinstance(points, bool) or not isinstance(points, int | float) or not -1000 <= points <= 1000:
            raise Malformed(f"The points of rubric {place} are not a number from -1000 to 1000.")
        tags = _tags(rubric.get("tags"), f"'tags' of rubric {place}")
        result.append({"criterion": criterion, "points": points, "tags": tags})
    return result


def _tags(tags: Any, what: str) -> list[str]:
    if tags is None:
        return []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Malformed(f"{what} is not a list of texts.")
    return tags


def _ideal_completion(data: Any) -> str | None:
    completion = data.get("ideal_completion") if isinstance(data, dict) else data
    if completion is not None and not isinstance(completion, str):
        raise Malformed("'ideal_completions_data' contains no text.")
    return completion


FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(("prompt_id", "prompt")), other=_other)
sniff, rows = FORMAT.sniff, FORMAT.rows
