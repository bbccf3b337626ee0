"""What people report of servers whose replies depart from OpenAI's, and what we make of it.

One table: server, version and source of the report, the answer, and how it must be read. The bodies
are written by hand after the reports. No request goes there.
"""

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from generation.llm.errors import (
    BadRequest,
    BrokenReply,
    ContentFiltered,
    ContextTooLong,
    LLMError,
    NotFound,
    OtherService,
    RateLimited,
    ServerError,
    StillWriting,
)
from generation.llm.gateway import Gateway
from generation.llm.provider_words import Ending
from generation.llm.types import Reply
from generation.trials.findings import of_refusal
from tests.generation.llm.helpers import (
    HELLO,
    Answer,
    Ledger,
    ask,
    completion,
    error_body,
    fake_endpoint,
    in_gateway,
    settings_for,
)


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
QWEN = "Error: Jinja Exception: System message must be at the beginning."
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
        "SGLang",
        "0.5.6, sgl-project/sglang#14821",
        choice({"content": None, "reasoning_content": '{"x": "y"}', "tool_calls": None}, "stop"),
        Ending.COMPLETE,
        reasoning='{"x": "y"}',
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
    Departure(
        "Ollama",
        "2026-09, ollama/ollama#18241",
        Answer(error_body(f"{QWEN}", code=500, type="server_error"), 500),
        BadRequest,
        finding="no_system_role",
    ),
    Departure(
        "llama.cpp",
        "2026-08, Mangi-11/Eta#59; 2026-07, lemonade-sdk/lemonade#2674",
        Answer(
            error_body(f"Unable to generate parser for this template. Automatic parser generation failed: {QWEN}"), 400
        ),
        BadRequest,
        finding="no_system_role",
    ),
    Departure(
        "LM Studio",
        "0.4.15, lmstudio-ai/lmstudio-bug-tracker#1999 and #2298",
        Answer(
            {
                "error": {
                    "type": "api_error",
                    "message": "Engine protocol predict request returned 400: "
                    + json.dumps(error_body(f"Unable to generate parser for this template. {QWEN}", code=400)),
                }
            },
            500,
        ),
        BadRequest,
        finding="no_system_role",
    ),
    Departure(
        "Anthropic, compatible",
        "2026-05, anthropics/claude-code#61412",
        Answer(error_body("role 'system' is not supported on this model"), 400),
        BadRequest,
        finding="no_system_role",
    ),
    Departure(
        "Bedrock",
        "2026-08, deepgram/deepgram-python-sdk#760",
        Answer(
            {
                "message": "A conversation must start with a user message. Try again with a conversation that starts with a "
                "user message."
            },
            400,
        ),
        BadRequest,
        finding="alternating_roles",
    ),
    Departure(
        "DeepSeek",
        "2026-06, microsoft/autogen#7864",
        Answer(error_body("deepseek-reasoner does not support successive user or assistant messages"), 400),
        BadRequest,
        finding="alternating_roles",
    ),
    Departure(
        "OpenRouter",
        "2026-09, nodetool-ai/nodetool#5755",
        Answer({"error": {"message": "No endpoints found that support image input", "code": 404}}),
        BadRequest,
        finding="images",
    ),
    Departure(
        "OpenRouter",
        "2026-09, nodetool-ai/nodetool#5755, with its status",
        Answer({"error": {"message": "No endpoints found that support image input", "code": 404}}, 404),
        BadRequest,
        finding="images",
    ),
    Departure(
        "OpenRouter",
        "its documentation of errors",
        Answer({"error": {"message": "No endpoints found for acme/medical-7b.", "code": 404}}),
        NotFound,
    ),
    Departure(
        "OpenRouter",
        "2026-07, xyOz-dev/Saturn#43",
        Answer({"error": {"message": "Rate limit exceeded: upstream", "code": 429}, "user_id": "u"}),
        RateLimited,
    ),
    Departure(
        "OpenRouter",
        "2026-09, nodetool-ai/nodetool#5755, the error on a choice",
        Answer(
            {
                **completion(""),
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "error",
                        "message": {"role": "assistant", "content": ""},
                        "error": {"code": 502, "message": "Provider disconnected"},
                    }
                ],
            }
        ),
        ServerError,
    ),
    Departure(
        "a gateway",
        "2026-08, maximhq/bifrost#5963",
        Answer(
            {"object": "chat.completion", "choices": None, "usage": None, "error": {"message": "Upstream overloaded"}}
        ),
        ServerError,
    ),
    Departure(
        "a gateway",
        "2026-06, XpressAI/xaibo#36",
        Answer({"code": "rate_limit_daily", "message": "Error code: 429 - the daily limit of requests is reached"}),
        RateLimited,
    ),
    Departure(
        "a gateway",
        "2026-03, HKUDS/nanobot#2289",
        Answer("unsupported model: MiniMax/MiniMax-M2.7"),
        NotFound,
    ),
    Departure(
        "a gateway",
        "2026-09, earendil-works/pi#9418",
        Answer("<!DOCTYPE html><html lang='en'><title>Not found</title>" + "<script></script>" * 400, 404),
        NotFound,
    ),
    Departure(
        "a gateway",
        "2026-07, JuiceBoxxGames/utsuwa#67; 2026-05, openclaw/openclaw#84697",
        Answer("<!DOCTYPE html><html><head><meta charset='utf-8'><title>A website</title></head></html>"),
        OtherService,
    ),
    Departure(
        "vLLM",
        "2026-07, langchain-ai/langchain#39008: the number of the token that stopped it",
        Answer({**completion("No."), "choices": [{**completion("No.")["choices"][0], "stop_reason": 151645}]}),
        Ending.COMPLETE,
        text="No.",
    ),
    Departure(
        "vLLM",
        "2026-07, langchain-ai/langchain#39008: token 0",
        Answer({**completion("No."), "choices": [{**completion("No.")["choices"][0], "stop_reason": 0}]}),
        Ending.COMPLETE,
        text="No.",
    ),
    Departure(
        "Ollama",
        "2026-09, browser-use/browser-use#5684: no count of a prompt that was in the cache",
        choice({"content": "No."}, "stop", {"completion_tokens": 2, "total_tokens": 2}),
        Ending.COMPLETE,
        text="No.",
    ),
    Departure("a proxy", "its page for signing in", Answer("\n<!doctype html><title>Sign in</title>"), OtherService),
)
SENT = {
    "alternating_roles": {"messages": [{"role": "user"}, {"role": "user"}]},
    "no_system_role": {"messages": [{"role": "system"}, {"role": "user"}]},
    "images": {"messages": [{"role": "user"}]},
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
        assert of_refusal(said, SENT[row.finding], has_images=row.finding == "images").code == (
            row.finding or "refused"
        )


class Complaint(NamedTuple):
    """What a server says of a schema or limit; `body`: a part of the request that it then takes."""

    server: str
    source: str
    answer: Answer
    body: dict[str, Any]


OBJECT: dict[str, Any] = {"response_format": {"type": "json_object"}}
NO_FORMAT: dict[str, Any] = {"response_format": None}
SCHEMA_COMPLAINTS = (
    Complaint(
        "Fireworks",
        "2026-06, earendil-works/pi#5352",
        Answer(error_body("JSON Schema not supported: could not understand the instance `{'required': ['x']}`."), 400),
        OBJECT,
    ),
    Complaint(
        "Cerebras",
        "2026-06, elizaOS/eliza#8854; 2025-08, musistudio/claude-code-router#708",
        Answer(
            {
                "message": "Unsupported JSON schema fields: {'minItems', 'items'}",
                "type": "invalid_request_error",
                "param": "response_format",
                "code": "wrong_api_format",
            },
            400,
        ),
        OBJECT,
    ),
    Complaint(
        "OpenRouter",
        "2026-07, sherifkozman/the-llm-council#55",
        Answer(
            error_body("output_config.format.schema: For 'number' type, properties maximum, minimum are not supported"),
            400,
        ),
        OBJECT,
    ),
    Complaint(
        "Anthropic, compatible",
        "2026-06, laravel/ai#715",
        Answer(
            {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config: minLength"}}, 400
        ),
        OBJECT,
    ),
    Complaint(
        "OpenCode Zen",
        "2026-08, anomalyco/opencode#43371",
        Answer(error_body("Upstream request failed", code="unsupported_keyword"), 400),
        OBJECT,
    ),
    Complaint(
        "a gateway",
        "2026-06, XpressAI/xaibo#36: an error of the provider with status 200",
        Answer(
            {"code": "invalid_request", "message": "Error code: 400 - response_format is not supported by this model"}
        ),
        OBJECT,
    ),
    Complaint(
        "Groq",
        "2026-02, mattpocock/evalite#384",
        Answer(error_body("Generated JSON does not match the expected schema. Please adjust your prompt."), 400),
        NO_FORMAT,
    ),
    Complaint(
        "Groq",
        "2026-08, Alishahryar1/free-claude-code#1354",
        Answer(
            error_body(
                "`max_completion_tokens` must be less than or equal to `16`, the maximum value for "
                "`max_completion_tokens` is less than the `context_window` for this model",
                param="max_completion_tokens",
            ),
            400,
        ),
        {"max_tokens": 16},
    ),
    Complaint(
        "Groq",
        "2026-07, Alishahryar1/free-claude-code#955: without marks",
        Answer(
            error_body(
                "max_completion_tokens must be less than or equal to 40, the maximum value for max_completion_tokens is "
                "less than the context_window for this model"
            ),
            400,
        ),
        {"max_tokens": 40},
    ),
)


class Verdict(BaseModel):
    met: bool


@pytest.mark.parametrize("row", SCHEMA_COMPLAINTS, ids=lambda row: f"{row.server}: {row.source}")
def test_what_a_server_says_of_a_schema_or_limit_shapes_the_next_request(row: Complaint) -> None:
    ledger = Ledger()
    request = replace(HELLO, max_tokens=64)

    async def judge(gateway: Gateway) -> Any:
        return await gateway.ask_structured(settings_for(target.url), request, Verdict)

    with fake_endpoint(row.answer, '{"met": true}') as target:
        _reply, verdict = in_gateway(judge, ledger)
    assert verdict.met
    assert len(ledger) == 2
    assert {name: target.bodies[1].get(name) for name in row.body} == row.body


def shaped(reasoning: str, ending: str = "stop") -> Answer:
    """A reply whose server took all of it for reasoning."""
    message = {"content": None, "reasoning_content": reasoning, "tool_calls": None}
    return choice(message, ending, {"prompt_tokens": 45, "completion_tokens": 10})


@pytest.mark.parametrize(
    "source",
    [
        "SGLang 0.5.6, sgl-project/sglang#14821",
        "vLLM, 2026-08, vllm-project/vllm#50948; 2025-06, vllm-project/vllm#19222",
    ],
)
def test_a_reply_that_its_server_took_for_reasoning_is_read(source: str) -> None:
    ledger = Ledger()

    async def judge(gateway: Gateway) -> Any:
        return await gateway.ask_structured(settings_for(target.url), HELLO, Verdict)

    with fake_endpoint(shaped('{\n "met": true\n}')) as target:
        reply, verdict = in_gateway(judge, ledger)
    assert (verdict.met, reply.text, len(ledger)) == (True, "", 1), source


@pytest.mark.parametrize(
    "answer",
    [
        shaped('It is met: {"met": true}'),
        shaped('{"met": true}', "length"),
        choice({"content": "It is met.", "reasoning_content": '{"met": true}'}, "stop"),
    ],
    ids=["reasoning that ends in JSON", "cut off", "beside a text"],
)
def test_json_within_reasoning_is_no_reply(answer: Answer) -> None:
    ledger = Ledger()

    async def judge(gateway: Gateway) -> Any:
        return await gateway.ask_structured(settings_for(target.url), replace(HELLO, max_tokens=64), Verdict)

    with fake_endpoint(answer, '{"met": false}') as target:
        _reply, verdict = in_gateway(judge, ledger)
    assert (verdict.met, len(ledger)) == (False, 2)


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
