"""Replies of two real small models, as llama.cpp's server sent them, through the checks of output.

Recorded by `record_real_replies.py`. What is expected of each was read in the recording: how it
ended, whether it is a verdict, and by which way of asking.
"""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from generation.llm.errors import BrokenReply, ContextTooLong
from generation.llm.http.failures import NO_KEY, completion_error
from generation.llm.provider_words import Ending
from generation.llm.reply_reading import body_of, check_not_empty, read_completion, read_shape
from generation.llm.types import Reply
from tests.generation.llm.helpers import settings_for

pytestmark = pytest.mark.plain
ROWS = json.loads(Path(__file__).with_name("real_replies.json").read_text(encoding="utf-8"))
BY_NAME = {(row["model"], row["name"]): row for row in ROWS}
SMOL, QWEN = "smollm2-135m", "qwen2.5-coder-0.5b"


class Verdict(BaseModel):
    explanation: str
    criteria_met: bool


def reply_of(model: str, name: str) -> Reply:
    row = BY_NAME[model, name]
    reply = read_completion(body_of(row["body"]), row["status"], NO_KEY, settings_for("http://127.0.0.1:9/v1"))
    assert isinstance(reply, Reply), reply
    return reply


def test_every_recorded_reply_is_read() -> None:
    assert len(ROWS) == len(BY_NAME) == 22
    for row in ROWS:
        if row["status"] != 200:
            continue
        reply = reply_of(row["model"], row["name"])
        check_not_empty(reply)
        assert reply.model == row["model"]
        assert reply.usage.tokens_in > reply.usage.tokens_cached >= 0
        assert reply.usage.tokens_out > 0
        assert not reply.usage.estimated
        assert reply.ending == (Ending.CUT_OFF if '"finish_reason":"length"' in row["body"] else Ending.COMPLETE)


@pytest.mark.parametrize("model", [SMOL, QWEN])
def test_a_prompt_beyond_the_context_is_named_with_the_context(model: str) -> None:
    row: dict[str, Any] = BY_NAME[model, "too long"]
    error = completion_error(httpx2.Response(row["status"]), row["body"], NO_KEY)
    assert isinstance(error, ContextTooLong)
    assert "2048" in error.detail


@pytest.mark.parametrize("way", ["json_schema", "json_object", "text"])
def test_one_model_gives_the_same_verdict_in_every_format_and_it_is_wrong(way: str) -> None:
    """A shape says nothing of the judgment: the good answer fails, and the bad one passes."""
    good = read_shape(reply_of(QWEN, f"verdict on a good answer, {way}"), Verdict)
    bad = read_shape(reply_of(QWEN, f"verdict on a bad answer, {way}"), Verdict)
    assert (good.criteria_met, bad.criteria_met) == (False, True)


@pytest.mark.parametrize("answer", ["good", "bad"])
def test_the_other_keeps_the_shape_only_with_a_schema(answer: str) -> None:
    assert read_shape(reply_of(SMOL, f"verdict on a {answer} answer, json_schema"), Verdict).criteria_met
    for way in ("json_object", "text"):
        with pytest.raises(BrokenReply):
            read_shape(reply_of(SMOL, f"verdict on a {answer} answer, {way}"), Verdict)


@pytest.mark.parametrize("model", [SMOL, QWEN])
def test_a_model_that_is_asked_to_think_in_marks_and_does_not_has_no_reasoning(model: str) -> None:
    assert reply_of(model, "answer with reasoning").reasoning == ""


@pytest.mark.parametrize("model", [SMOL, QWEN])
def test_a_verdict_that_is_cut_off_is_broken(model: str) -> None:
    with pytest.raises(BrokenReply):
        read_shape(reply_of(model, "verdict cut off"), Verdict)
