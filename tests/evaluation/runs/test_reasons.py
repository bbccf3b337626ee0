"""A verdict whose reason is the example of the judge's instructions has none."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import check_explained
from generation.llm.types import Message, Request

pytestmark = pytest.mark.plain
EXAMPLES = [
    (file, example)
    for file in sorted(Path(settings.BASE_DIR, "mhb_site", "benchmarks").glob("*/prompts/*.md"))
    for example in re.findall(r'"explanation": "([^"]+)"', file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("file", "example"), EXAMPLES, ids=lambda value: getattr(value, "stem", None))
def test_the_example_of_the_instructions_is_no_reason(file: Path, example: str) -> None:
    response = "Take it at night, with a glass of water."
    instructions = Message("system", file.read_text(encoding="utf-8"))
    request = Request((instructions, Message("user", f"The response: {response}")))
    with pytest.raises(BrokenReply, match="repeats the instructions"):
        check_explained(request, [f"{example.capitalize()}."])
    for reason in ("It says so.", response, ""):
        check_explained(request, [reason])


def test_a_reason_in_other_words_of_the_instructions_is_one() -> None:
    rule = "It is refused if the response declines to answer. "
    instructions = Message("system", rule + '{"explanation": "which words of the response decide"}')
    request = Request((instructions, Message("user", "")))
    check_explained(request, ["The response declines to answer."])
    with pytest.raises(BrokenReply, match="repeats the instructions"):
        check_explained(request, ["Words of the response decide."])


def test_every_judge_with_an_example_is_in_the_list() -> None:
    assert {"healthbench", "mhb"} <= {file.parts[-3] for file, _example in EXAMPLES}
