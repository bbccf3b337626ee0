"""HealthBench (OpenAI): one conversation a line, with the rubrics of its grader.

The full, consensus and hard files have this shape. The meta-eval file has not, and is refused with
a message that names it.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from generation.sources.importers.base import Malformed, Row, gettext_noop, language_fields
from generation.sources.importers.records import FileRecord, Id, Texts, Verbatim, joined_parts
from generation.sources.importers.tabular import File, RecordFormat

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
    if "rubrics" not in record and {"completion", "rubric"} <= record.keys():
        return _META_EVAL
    return ""


def _points(value: Any) -> float:
    # Published points are -10 to 10. The bound excludes NaN, infinity and integers too large for a
    # database column.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1000 <= value <= 1000:
        raise ValueError("is not a number from -1000 to 1000")
    return value


def _ideal(data: Any) -> str | None:
    completion = data
    if isinstance(data, dict):
        completion = data.get("ideal_completion")
    if completion is not None and not isinstance(completion, str):
        raise ValueError("contains no text")
    return completion


class _Turn(FileRecord):
    role: Literal["user", "assistant"]
    content: Annotated[Verbatim, BeforeValidator(joined_parts)]


class _Rubric(FileRecord):
    criterion: Verbatim
    points: Annotated[Any, AfterValidator(_points)]
    tags: Texts = []


class _Conversation(FileRecord):
    prompt_id: Id
    prompt: list[_Turn] = Field(title="turn", min_length=1)
    rubrics: list[_Rubric] = Field(title="rubric")
    example_tags: Texts = []
    ideal_completions_data: Annotated[str | None, BeforeValidator(_ideal)] = None
    canary: Any = None


def _row(record: _Conversation, _file: File) -> Row:
    """Row.content: {kind: 'dialogue', turns, rubrics, tags: [str], ideal_completion: str | None}.

    turns: [{role, content}]; rubrics: [{criterion, points, tags}]. Row.private: {canary} if there
    is one.
    """
    if record.prompt[-1].role != "user":
        raise Malformed("The conversation does not end with the user.")
    user_texts = [turn.content for turn in record.prompt if turn.role == "user"]
    rubrics = [rubric.model_dump() for rubric in record.rubrics]
    private = {}
    if record.canary:
        private = {"canary": record.canary}
    return Row(
        external_id=record.prompt_id,
        title=user_texts[0],
        **language_fields("\n".join(user_texts)),
        content={
            "kind": "dialogue",
            "turns": [turn.model_dump() for turn in record.prompt],
            "rubrics": rubrics,
            "tags": record.example_tags,
            "ideal_completion": record.ideal_completions_data,
        },
        private=private,
    )


FORMAT = RecordFormat(label, _Conversation, _row, other=_other)
sniff, rows = FORMAT.sniff, FORMAT.rows
