"""What people report of servers whose replies depart from OpenAI's, and what we make of it.

One table: server, version and source of the report, the answer, and how it must be read. The bodies
are written by hand after the reports. No request goes there.
"""

import json
from typing import Any, NamedTuple

import pytest

from generation.llm.errors import (
    BadRequest,
    BrokenReply,
    ContentFiltered,
    ContextTooLong,
    LLMError,
    NotFound,
    OtherService,
    StillWriting,
)
from generation.llm.provider_words import Ending
from generation.llm.types import Reply
from generation.trials.findings import of_refusal
from tests.generation.llm.helpers import Answer, Ledger, ask, completion, error_body, fake_endpoint


class Departure(NamedTuple):
    server: str
    source: str  # version or date, then the public report
    answer: Answer
    outcome: type[LLMError] | Ending
    text: str = ""
    reasoning: str = ""
    finding: str = ""  # of a test of the endpoint


def choice(message: dict[str, Any] | None, finish_reason: str | None, usage: dict[str, Any] | None = None) -> Answer:
    first: dict[str, Any] = {"index": 0, "finish_reason": finish_reason}
    if message is not None:
        first["message"] = {"role": "assistant", **message}
    return Answer({"object": "chat.completion", "choices": [first], "usage": usage})


TEMPLATE = (
    "\n------------\nWhile executing CallExpression at line 189, column 32 in source:\n...\nError: Jinja Exception: "
    "After the optional system message, conversation roles must alternate user and assistant roles except for tool "
    "calls and results."
)
GEMMA = "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."
DEPARTURES = (
    Departure(
        "llama.cpp",
        "2026-08, mistralai/mistral-vibe#1006",
        Answer({"error": {"code": 500, "message": TEMPLATE, "type": "server_error"}}, 500),
        BadRequest,
        finding="alternating_roles",
    ),
    Departure(
        "llama.cpp",
        "2026-02, nextai-translator/raycast-openai-translator#34",
        Answer({"error": {"code": 500, "message": GEMMA, "type": "server_error"}}, 500),
        BadRequest,
        finding="alternating_roles",
    ),
    Departure(
        "llama.cpp",
        "2026-08, unslothai/unsloth#9923",
        Answer({"error": {"code": 400, "message": "Failed to initialize samplers: failed to parse grammar"}}, 400),
        BadRequest,
    ),
    Departure(
        "llama.cpp",
        "2026-08, ggml-org/llama.cpp#27279 and #26381",
        Answer(
            error_body("The model produced output that does not match the expected peg-native format", code=500), 500
        ),
        BrokenReply,
    ),
    Departure(
        "llama.cpp",
        "b11549, our own run",
        Answer({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}}, 400),
        ContextTooLong,
    ),
    Departure(
        "vLLM",
        "0.27.1, vllm-project/vllm#52640",
        choice({"content": None, "reasoning": "The infant is"}, "length", {"prompt_tokens": 9, "completion_tokens": 4}),
        Ending.CUT_OFF,
        reasoning="The infant is",
    ),
    Departure(
        "vLLM",
        "vllm-project/vllm#2964, BerriAI/litellm#4377",
        Answer(
            {"object": "error", "message": "System role not supported", "type": "BadRequestError", "code": 400}, 400
        ),
        BadRequest,
        finding="no_system_role",
    ),
    Departure(
        "SGLang",
        "sgl-project/sglang#892",
        Answer("Internal Server Error: System role not supported", 500),
        BadRequest,
        finding="no_system_role",
    ),
    Departure(
        "SGLang",
        "0.4.4, sgl-project/sglang#4550",
        Answer(
            {
                **completion("No."),
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": "No.",
                            "reasoning_content": None,
                            "tool_calls": None,
                        },
                        "finish_reason": "stop",
                        "matched_stop": 151645,
                    },
                ],
            }
        ),
        Ending.COMPLETE,
        text="No.",
    ),
    Departure(
        "Ollama",
        "0.33.2, anomalyco/opencode#46061",
        choice({"content": "", "reasoning": "The user asks"}, "length"),
        Ending.CUT_OFF,
        reasoning="The user asks",
    ),
    Departure(
        "Ollama",
        "0.12.5, ollama/ollama#13371",
        Answer({**completion(None), "error": None, "usage": {"prompt_tokens": 0, "completion_tokens": 0}}),
        Ending.COMPLETE,
    ),
    Departure(
        "LM Studio",
        "0.4.17, lmstudio-ai/lmstudio-bug-tracker#2085 and pssah4/vault-operator#73",
        Answer({"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
        NotFound,
    ),
    Departure(
        "LM Studio",
        "lmstudio-ai/lmstudio-bug-tracker#1586",
        Answer(error_body('Error rendering prompt with jinja template: "No user query found in messages."'), 400),
        BadRequest,
        finding="alternating_roles",
    ),
    Departure(
        "LiteLLM",
        "2026-08, BerriAI/litellm#37710",
        Answer(error_body("litellm.APIConnectionError: m unable to complete request: max_output_tokens"), 500),
        StillWriting,
    ),
    Departure(
        "LiteLLM",
        "BerriAI/litellm#7259",
        Answer(error_body("litellm.BadRequestError: litellm.ContextWindowExceededError: too long", code="400"), 400),
        ContextTooLong,
    ),
    Departure(
        "TGI",
        "huggingface/huggingface_hub#2763",
        Answer(
            {
                "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 8740 `inputs` "
                "tokens and 500 `max_new_tokens`",
                "error_type": "validation",
            },
            422,
        ),
        ContextTooLong,
    ),
    Departure(
        "TGI",
        "huggingface/text-generation-inference#2344",
        choice({"content": "No."}, "eos_token"),
        Ending.COMPLETE,
        text="No.",
    ),
    Departure(
        "Azure",
        "2026-09, experientiallabs/experiential#967",
        Answer(
            {
                "object": "chat.completion",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": ""},
                        "finish_reason": "content_filter",
                        "content_filter_results": {"error": {"code": "content_filter", "message": "blocked by label"}},
                    }
                ],
                "usage": {"prompt_tokens": 55, "total_tokens": 55},
            },
            400,
        ),
        ContentFiltered,
    ),
    Departure(
        "Azure",
        "2026-09, earendil-works/pi#9645",
        Answer(error_body("Unrecognized request argument supplied: prompt_cache_key"), 400),
        BadRequest,
    ),
    Departure(
        "Bedrock",
        "2026-06, promptfoo/promptfoo#9587",
        choice({"content": "<reasoning>It is rare.</reasoning>No."}, "stop"),
        Ending.COMPLETE,
        text="No.",
        reasoning="It is rare.",
    ),
    Departure(
        "Vertex",
        "2026-08, QwenLM/qwen-code#9884",
        choice({}, "MAX_TOKENS", {"prompt_tokens": 9, "total_tokens": 14}),
        Ending.CUT_OFF,
    ),
    Departure(
        "Vertex",
        "2026-04, agentgateway/agentgateway#1464",
        choice(None, "length", {"prompt_tokens": 9, "total_tokens": 14}),
        Ending.CUT_OFF,
    ),
    Departure(
        "Vertex",
        "BerriAI/litellm#16767",
        Answer(error_body("Developer instruction is not enabled for models/gemma-3-27b-it"), 400),
        BadRequest,
        finding="no_system_role",
    ),
    Departure(
        "Groq",
        "praveenjuge/teak#255",
        Answer(error_body("Failed to validate JSON.", code="json_validate_failed", failed_generation="{"), 400),
        BrokenReply,
    ),
    Departure("a proxy", "its page for signing in", Answer("\n<!doctype html><title>Sign in</title>"), OtherService),
)
SENT = {
    "alternating_roles": {"messages": [{"role": "user"}, {"role": "user"}]},
    "no_system_role": {"messages": [{"role": "system"}, {"role": "user"}]},
    "": {"messages": [{"role": "user"}]},
}


@pytest.mark.parametrize("row", DEPARTURES, ids=lambda row: f"{row.server}: {row.source}")
def test_what_servers_answer_is_read_as_what_it_is(row: Departure) -> None:
    ledger = Ledger()
    outcome: Reply | LLMError
    with fake_endpoint(row.answer) as target:
        try:
            outcome = ask(target.url, ledger, attempts=2)
        except LLMError as error:
            outcome = error
    if isinstance(row.outcome, Ending):
        assert isinstance(outcome, Reply)
        assert (outcome.ending, outcome.text, outcome.reasoning) == (row.outcome, row.text, row.reasoning)
        return
    assert ledger[0].error == row.outcome.__name__
    said = row.answer.body if isinstance(row.answer.body, str) else json.dumps(row.answer.body)
    if row.outcome is BadRequest:
        assert of_refusal(said, SENT[row.finding], has_images=False).code == (row.finding or "refused")


def test_all_ten_servers_are_in_the_table() -> None:
    servers = {"llama.cpp", "vLLM", "SGLang", "Ollama", "LM Studio", "LiteLLM", "TGI", "Azure", "Bedrock", "Vertex"}
    assert servers <= {row.server for row in DEPARTURES}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Answer("\ufeff <html><head><title>Log in\n to Clinic</title></head>" + "x" * 5_000),
            "The page: Log in to Clinic",
        ),
        (Answer("<?xml version='1.0'?><Error/>"), "The page: <?xml version='1.0'?><Error/>"),
        (Answer({"object": "response", "output": [], "usage": {"input_tokens": 5}}), "Responses API"),
        (Answer({"type": "message", "content": [{"type": "text", "text": "No."}]}), "Messages API"),
        (Answer({"model": "m", "message": {"content": "No."}, "done": True}), "Ollama's own API"),
        (Answer({"candidates": []}), "Gemini's own API"),
        (Answer({"object": "text_completion", "choices": [{"text": "No.", "index": 0}]}), "older text completions"),
        (Answer({"object": "list", "data": []}), "lists of models"),
    ],
)
def test_what_is_no_chat_completion_is_one_sentence_at_once(answer: Answer, said: str) -> None:
    ledger = Ledger()
    with fake_endpoint(answer) as target, pytest.raises(LLMError, match="no chat completions API") as stopped:
        ask(target.url, ledger)
    assert said in str(stopped.value)
    assert len(str(stopped.value)) < 300
    assert [attempt.error for attempt in ledger] == ["OtherService"]


@pytest.mark.parametrize("status", [405, 501, 505])
def test_a_status_that_no_repetition_cures_does_not_last_for_minutes(status: int) -> None:
    ledger = Ledger()
    with fake_endpoint(Answer("<html><title>Not here</title></html>", status)) as target, pytest.raises(LLMError):
        ask(target.url, ledger)
    assert {attempt.error for attempt in ledger} == {"NotFound"}
    assert {attempt.detail for attempt in ledger} == {"The page: Not here"}
