"""Replies and errors as providers spell them: outcome, attempts and cost of each."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from aiohttp import web

from generation.llm.errors import (
    AuthFailed,
    BadRequest,
    BrokenReply,
    ContentFiltered,
    ContextTooLong,
    LLMError,
    NoCredit,
    NotFound,
    RateLimited,
    ServerError,
    StreamsOnly,
    TimedOut,
    UnknownEnding,
)
from generation.llm.http.failures import status_error
from generation.llm.http.known_limits import context_length
from generation.llm.ledger_interface import Ledger as LedgerHooks
from generation.llm.ledger_interface import PaidReply
from generation.llm.provider_words import CODES, DECISIONS, ENDINGS, Ending, ending_of, plain
from generation.llm.request_body import usage_of
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Reply, Usage
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
from tests.generation.llm.test_structured import GOOD, ask_structured

# ---------------------------------------------------------------------------------------- endings


def test_every_word_has_one_meaning():
    for table in (ENDINGS, CODES):
        words = [plain(word) for entry in table.values() for word in entry]
        assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("stop", Ending.COMPLETE),
        ("STOP", Ending.COMPLETE),
        ("end_turn", Ending.COMPLETE),
        ("eos", Ending.COMPLETE),
        ("eos_token", Ending.COMPLETE),
        ("stop_sequence", Ending.COMPLETE),
        ("FinishReason.STOP", Ending.COMPLETE),
        ("max_tokens", Ending.CUT_OFF),
        ("MAX_TOKENS", Ending.CUT_OFF),
        ("maxTokens", Ending.CUT_OFF),
        ("Length", Ending.CUT_OFF),
        ("model_length", Ending.CUT_OFF),
        ("model_context_window_exceeded", Ending.CUT_OFF),
        ("pause_turn", Ending.CUT_OFF),
        ("repetition", Ending.CUT_OFF),
        ("content_filter", Ending.FILTERED),
        ("SAFETY", Ending.FILTERED),
        ("RECITATION", Ending.FILTERED),
        ("BLOCKLIST", Ending.FILTERED),
        ("PROHIBITED_CONTENT", Ending.FILTERED),
        ("SPII", Ending.FILTERED),
        ("LANGUAGE", Ending.FILTERED),
        ("IMAGE_SAFETY", Ending.FILTERED),
        ("guardrail_intervened", Ending.FILTERED),
        ("sensitive", Ending.FILTERED),
        ("refusal", Ending.REFUSED),
        ("error", Ending.FAILED),
        ("insufficient_system_resource", Ending.FAILED),
        ("abort", Ending.FAILED),
        ("OTHER", Ending.FAILED),
        ("load", Ending.FAILED),
        ("network_error", Ending.FAILED),
        ("Overloaded", Ending.FAILED),
        ("client-disconnect", Ending.FAILED),
        ("<|im_end|>", Ending.COMPLETE),
        ("TOKEN_BUDGET", Ending.CUT_OFF),
        ("REASON_MAX_LEN", Ending.CUT_OFF),
        ("stopReason.max_tokens_reached", Ending.CUT_OFF),
        ("blacklist", Ending.FILTERED),
        ("TIMED_OUT", Ending.FAILED),
        ("STOP_CRITERIA_MET", Ending.COMPLETE),
        ("unsafe", Ending.FILTERED),
        ("tool_use", Ending.TOOL_CALL),
        ("MALFORMED_FUNCTION_CALL", Ending.TOOL_CALL),
        ("", Ending.UNKNOWN),
        ("none", Ending.UNKNOWN),
        ("vibes", Ending.UNKNOWN),
    ],
)
def test_an_ending_is_read_in_any_spelling(word, ending):
    assert ending_of(word) is ending


@pytest.mark.parametrize(
    ("word", "kind", "attempts"),
    [
        ("error", ServerError, 5),
        ("insufficient_system_resource", ServerError, 5),
        ("Abort", ServerError, 5),
        ("SAFETY", ContentFiltered, 1),
        ("tool_calls", BrokenReply, 2),
        ("vibes", UnknownEnding, 1),
        (None, UnknownEnding, 1),
    ],
)
def test_a_reply_that_did_not_end_as_an_answer_is_none(word, kind, attempts):
    ledger = Ledger()
    with fake_endpoint(completion("Half an answ", finish_reason=word)) as target, pytest.raises(LLMError) as caught:
        ask(target.url, ledger)
    assert type(caught.value) is kind
    assert len(ledger) == attempts
    assert {attempt.reply and attempt.reply.text for attempt in ledger} == {"Half an answ"}, "it is billed, and kept"
    if kind is not BrokenReply:
        assert f"The endpoint says: {word or 'none'}." in str(caught.value)


@pytest.mark.parametrize("decided", DECISIONS)
def test_people_decide_what_an_unknown_ending_means_and_nothing_is_paid_twice(decided):
    paid = Reply("Rest.", finish_reason="vibes")

    async def find(_identity):
        return [PaidReply(1, paid)]

    def asked(**fields):
        async def work(gateway):
            lines = LedgerHooks(ledger, find=find)
            return await gateway.ask(settings_for(target.url, **fields), HELLO, ledger=lines)

        return in_gateway(work)

    ledger = Ledger()
    with fake_endpoint("new") as target:
        with pytest.raises(UnknownEnding):
            asked()
        if decided is Ending.FILTERED:
            with pytest.raises(ContentFiltered):
                asked(endings={"Vibes": decided})
        else:
            reply = asked(endings={"Vibes": decided})
            assert reply.text == ("new" if decided is Ending.FAILED else "Rest.")
            assert reply.ending == (Ending.COMPLETE if decided is Ending.FAILED else decided)
    assert len(target.bodies) == (decided is Ending.FAILED)


@pytest.mark.parametrize(
    "said",
    [
        {"finish_reason": {"type": "length", "length": 5}},
        {"finish_reason": None, "finishReason": "MAX_TOKENS"},
        {"finish_reason": None, "done_reason": "length"},
        {"finish_reason": "stop", "stop_reason": "max_tokens"},
    ],
)
def test_an_ending_is_read_from_wherever_a_choice_says_it(said):
    body = completion("Half an answ")
    body["choices"][0] |= said
    with fake_endpoint(body) as target:
        assert ask(target.url).ending == Ending.CUT_OFF


BLOCKED = {"violence": {"filtered": True, "severity": "high"}}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"choices": [{"finish_reason": "content_filter", "content_filter_results": BLOCKED}]}, ContentFiltered),
        ({"choices": [{"finish_reason": "SAFETY", "message": None}]}, ContentFiltered),
        ({"choices": [], "prompt_filter_results": [{"content_filter_results": BLOCKED}]}, ContentFiltered),
        ({"choices": None, "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, ContentFiltered),
        ({"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "gone"}}]}, ServerError),
        ({"choices": [{**completion("a")["choices"][0], "error": {"code": 429, "message": "slow"}}]}, RateLimited),
        ({"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["self-harm"]}}}, ContentFiltered),
        ({"error": {"message": "overloaded", "type": "overloaded_error"}, **completion("half")}, ServerError),
        # In the place of a reply, with HTTP 200, as some say it.
        ({"errors": [{"message": "slow down", "code": 429}]}, RateLimited),
        ({"success": False, "message": "quota", "code": 402}, NoCredit),
        ({"code": 20012, "message": "Model does not exist.", "data": None}, NotFound),
        ({"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, NoCredit),
        ({"object": "error", "message": "exceeds the context length", "code": 400}, ContextTooLong),
        ({"error": "model overloaded"}, ServerError),
        ({"error_code": 18, "error_msg": "Open api qps request limit reached"}, RateLimited),
        ({"error": True, "code": 429, "message": "slow"}, RateLimited),
        ({"error": True, "message": "failed halfway", **completion("half")}, ServerError),
        ({"choices": None, "base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, ContentFiltered),
        ({"choices": [{**completion("a")["choices"][0], "native_finish_reason": "MAX_TOKENS"}]}, None),
    ],
)
def test_a_filter_or_an_error_in_the_place_of_a_reply_is_named(body, kind):
    with fake_endpoint(body) as target:
        if kind is None:
            assert ask(target.url).ending == Ending.CUT_OFF
            return
        with pytest.raises(kind):
            ask(target.url, attempts=1)
    assert len(target.bodies) == 1


def test_a_verdict_in_a_tool_call_is_named_as_such():
    call = {"type": "function", "function": {"name": "verdict", "arguments": GOOD}}
    with (
        fake_endpoint(completion(None, finish_reason="stop", tool_calls=[call])) as target,
        pytest.raises(BrokenReply, match="called a tool"),
    ):
        ask_structured(target.url)
    assert len(target.bodies) == 2


def test_a_completion_that_cannot_be_read_is_billed_as_estimated():
    """Its text was written, and five attempts that cost nothing would spend a budget unseen."""
    ledger = Ledger()
    with fake_endpoint(Answer(json.dumps(completion("Rest, and drink."))[:120])) as target, pytest.raises(ServerError):
        ask(target.url, ledger, price_out=Decimal(20))
    assert [usage_of(attempt) for attempt in ledger] == [Usage(6, 60, estimated=True)] * 5
    ledger = Ledger()
    with fake_endpoint(Answer("Sign in")) as target, pytest.raises(ServerError):
        ask(target.url, ledger, attempts=1)
    assert usage_of(ledger[0]) == Usage()


@pytest.mark.parametrize("before", ["\ufeff", "\n\n: OPENROUTER PROCESSING\n\n: again\n", "// cached\n"])
def test_what_keeps_a_connection_alive_is_skipped(before):
    with fake_endpoint(Answer(before + json.dumps(completion("fine")))) as target:
        assert ask(target.url).text == "fine"


@pytest.mark.parametrize(
    "answer",
    [
        Answer('data: {"choices": []}\n\ndata: [DONE]\n'),
        Answer(error_body("This model only support stream mode, please enable the stream parameter."), 400),
    ],
)
def test_an_endpoint_that_only_streams_is_refused_in_one_sentence(answer):
    ledger = Ledger()
    with fake_endpoint(answer) as target, pytest.raises(LLMError, match="only streams its replies"):
        ask(target.url, ledger)
    assert {attempt.error for attempt in ledger} == {StreamsOnly.__name__}


# ----------------------------------------------------------------------------------------- errors


def azure(code):
    return {"message": "...", "code": None, "param": "prompt", "innererror": {"code": code}}


def routed(status, **raw):
    return {"message": "Provider returned error", "code": status, "metadata": {"raw": json.dumps({"error": raw})}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        # One outcome for moderation, however it arrives.
        (400, {"message": "...", "code": "content_filter"}, ContentFiltered),
        (400, azure("ResponsibleAIPolicyViolation"), ContentFiltered),
        (400, {"message": "Content Exists Risk", "type": "invalid_request_error"}, ContentFiltered),
        (400, {"message": "...", "code": "data_inspection_failed"}, ContentFiltered),
        (400, {"message": "...", "code": "content_policy_violation"}, ContentFiltered),
        (400, {"message": "...", "code": "invalid_prompt"}, ContentFiltered),
        (403, {"message": "Your input was flagged", "code": 403}, ContentFiltered),
        (451, "legal", ContentFiltered),
        (500, {"message": "...", "code": "SensitiveContentDetected"}, ContentFiltered),
        (400, routed(400, message="...", code="content_filter"), ContentFiltered),
        # The model's own output.
        (400, {"message": "...", "code": "json_validate_failed", "failed_generation": "{"}, BrokenReply),
        (400, {"message": "...", "failed_generation": "{"}, BrokenReply),
        (400, {"message": "The model did not produce valid JSON."}, BrokenReply),
        (400, {"message": "Failed to call a function.", "code": "tool_use_failed"}, BrokenReply),
        (400, {"message": "Failed to parse the request body as JSON"}, BadRequest),
        # The context.
        (400, {"message": "...", "type": "exceed_context_size_error", "n_ctx": 4096}, ContextTooLong),
        (413, {"message": "Prompt is too long"}, ContextTooLong),
        (400, routed(400, message="maximum context length is 8192 tokens"), ContextTooLong),
        (
            400,
            {"message": "litellm.ContextWindowExceededError: litellm.BadRequestError: x", "code": "400"},
            ContextTooLong,
        ),
        (
            422,
            {"error": "`inputs` must have less than 4095 tokens. Given: 5000", "error_type": "validation"},
            ContextTooLong,
        ),
        (413, {"type": "error", "error": {"type": "request_too_large", "message": "..."}}, ContextTooLong),
        (500, {"message": "litellm.ContentPolicyViolationError: x", "code": "500"}, ContentFiltered),
        (400, {"type": "error", "error": {"message": "Your credit balance is too low."}}, NoCredit),
        (400, [{"error": {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}], AuthFailed),
        (400, {"message": "Range of input length should be [1, 30720]", "code": "InvalidParameter"}, ContextTooLong),
        (403, {"code": "No permission", "error": "Content violates usage guidelines."}, ContentFiltered),
        (400, {"message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}, ContentFiltered),
        (400, {"code": "invalid argument", "error": "Incorrect API key provided: xx***."}, AuthFailed),
        (400, {"message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}, AuthFailed),
        (400, {"message": "Budget has been exceeded!", "type": "budget_exceeded", "code": "400"}, NoCredit),
        (429, {"message": "Your team has used all available credits."}, NoCredit),
        (429, {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}, NoCredit),
        (429, {"message": "...", "type": "exceeded_current_quota_error"}, NoCredit),
        (400, {"message": "...", "code": "ServiceQuotaExceededException"}, RateLimited),
        (400, {"message": "Request too large: tokens per minute (TPM): limit 6000, requested 7000"}, RateLimited),
        (400, {"message": "The model's response did not match the schema."}, BrokenReply),
        (400, {"message": "The request was rejected because it was considered high risk"}, ContentFiltered),
        (400, {"code": "SensitiveContentDetected.Violence", "message": "..."}, ContentFiltered),
        (400, {"message": "输入内容审核不通过，请重新调整输入内容"}, ContentFiltered),
        (403, {"message": "Request blocked by DLP policy: PHI detected"}, ContentFiltered),
        (403, {"message": "Access blocked by network policy"}, AuthFailed),
        (400, {"message": "Field required: PHI, DLP, high risk"}, BadRequest),
        (424, [{"code": 2016, "message": "Prompt blocked due to security configurations"}], ContentFiltered),
        (400, {"code": "1261", "message": "Prompt 超长"}, ContextTooLong),
        (400, {"message": "Invalid request: Your request exceeded model token limit: 8192"}, ContextTooLong),
        (400, {"message": "length of prompt_tokens (40000) must be less than max_seq_len (32768)."}, ContextTooLong),
        (403, {"code": "AllocationQuota.FreeTierOnly", "message": "..."}, NoCredit),
        (403, {"message": "Sorry, your account balance is insufficient"}, NoCredit),
        (400, {"message": "/chat/completions: Invalid model name passed in model=x."}, NotFound),
        # Not so fast, and no money left.
        (429, {"message": "You exceeded your current quota.", "code": "insufficient_quota"}, NoCredit),
        (429, {"message": "Allocated quota per minute exceeded.", "code": "insufficient_quota"}, RateLimited),
        (429, {"message": "Quota exceeded. Please retry in 34s.", "status": "RESOURCE_EXHAUSTED"}, RateLimited),
        (400, {"message": "...", "type": "rate_limit_error"}, RateLimited),
        (403, {"message": "...", "code": "insufficient_balance"}, NoCredit),
        # Faults of the server, which pass.
        (424, "failed dependency", ServerError),
        (498, "over capacity", ServerError),
        (499, "client closed", ServerError),
        (529, {"type": "overloaded_error"}, ServerError),
        (408, "slow", TimedOut),
        # The format, also in a server's own failure; the model; the key.
        (500, {"message": "Failed to compile grammar"}, BadRequest),
        (500, "boom", ServerError),
        (400, {"message": "...", "param": "response_format.schema"}, BadRequest),
        (400, {"message": "...", "code": "model_decommissioned"}, NotFound),
        (400, {"message": "xyz is not a valid model ID"}, NotFound),
        (400, {"message": "...", "code": "invalid_api_key"}, AuthFailed),
        (400, [{"error": {"message": "...", "status": "UNAUTHENTICATED"}}], AuthFailed),
        (400, {"detail": [{"loc": ["body"], "msg": "extra", "input": "content policy"}]}, BadRequest),
    ],
)
def test_an_error_is_known_by_its_codes_then_its_status_then_its_wording(status, body, kind):
    assert type(status_error(status, body)) is kind


@pytest.mark.parametrize("status", [424, 498, 499, 529])
def test_a_fault_that_passes_is_tried_again(status):
    with fake_endpoint(Answer("later", status), "fine") as target:
        assert ask(target.url).text == "fine"


@pytest.mark.parametrize(
    "refused",
    [
        Answer(error_body("Failed to generate JSON.", code="json_validate_failed", failed_generation="{"), 400),
        Answer(error_body("The model produced output that does not match the expected peg-native format"), 500),
    ],
)
def test_what_a_provider_could_not_validate_is_a_broken_reply_asked_for_once_more_without_validation(refused):
    with fake_endpoint(refused, GOOD) as target:
        assert ask_structured(target.url)[1].criteria_met
    assert ["response_format" in body for body in target.bodies] == [True, False]
    ledger = Ledger()
    with fake_endpoint(refused) as target, pytest.raises(BrokenReply):
        ask_structured(target.url, ledger=ledger)
    assert [attempt.error for attempt in ledger] == ["BrokenReply"] * 2


@pytest.mark.parametrize(
    "refused",
    [
        Answer(error_body("Unsupported keyword: const"), 400),
        Answer("nope", 422),
        Answer({"error": "Failed to parse grammar"}, 500),
        Answer(error_body("No endpoints found that can handle the requested parameters."), 404),
    ],
)
def test_a_format_is_at_fault_if_the_request_succeeds_without_it_in_whatever_words(refused):
    async def twice(gateway):
        request = replace(HELLO, schema={"type": "object"})
        await gateway.ask(settings_for(target.url), request)
        await gateway.ask(settings_for(target.url), replace(request, repeat=1))

    with fake_endpoint(refused, refused, "fine") as target:
        in_gateway(twice, attempts=1)
    formats = [body.get("response_format", {}).get("type") for body in target.bodies]
    assert formats == ["json_schema", "json_object", None, None], "and that is remembered"
    with fake_endpoint(refused) as target, pytest.raises(LLMError):
        ask_structured(target.url, output_format="json_object", tries=1)
    assert {body["response_format"]["type"] for body in target.bodies} == {"json_object"}, "a pinned format stays"


def test_a_limit_beyond_the_context_is_lowered_to_what_it_leaves():
    message = (
        "This model's maximum context length is 4096 tokens. However, you requested 7500 tokens "
        "(3500 in the messages, 4000 in the completion)."
    )
    with fake_endpoint(Answer(error_body(message), 400), "fine") as target:
        assert ask(target.url, max_tokens=4000).text == "fine"
    assert [body["max_tokens"] for body in target.bodies] == [4000, 596]


@pytest.mark.parametrize(
    ("message", "second"),
    [
        ("max_tokens is too large: 16384. This model supports at most 4096 completion tokens.", 4096),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens", 8192),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value for this model", 8192),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 4000 `inputs` tokens and 16384 `max_new_tokens`",
            4193,
        ),
        (
            "This endpoint's maximum context length is 8192 tokens. However, you requested about 17000 tokens "
            "(616 of text input, 16384 in the output).",
            7576,
        ),
        ("input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease either", 10_000),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is 4096 tokens "
            "and your request has 3500 input tokens (16384 > 4096 - 3500).",
            596,
        ),
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", None),
    ],
)
def test_a_limit_that_nobody_set_gives_way_to_what_the_endpoint_allows(message, second):
    async def twice(gateway):
        request = replace(HELLO, schema={"type": "object"})
        await gateway.ask(settings_for(target.url), request)
        await gateway.ask(settings_for(target.url), replace(request, repeat=1))

    with fake_endpoint(Answer(error_body(message), 400), "fine") as target:
        in_gateway(twice)
    assert [body.get("max_tokens") for body in target.bodies[:2]] == [16_384, second]
    assert {body["response_format"]["type"] for body in target.bodies} == {"json_schema"}, "the format was not at fault"
    assert len(target.bodies) == 3, "and that is remembered"


MODEL = {"id": "m", "owned_by": "x"}


@pytest.mark.parametrize(
    ("answers", "length"),
    [
        ({"/v1/models": {"data": [{**MODEL, "max_model_len": 4096}, {"id": "n", "max_model_len": 9}]}}, 4096),
        ({"/v1/models": {"data": [{**MODEL, "context_length": 8192, "top_provider": {"context_length": 4096}}]}}, 4096),
        ({"/v1/models": {"data": [{**MODEL, "context_window": 131_072, "max_completion_tokens": 8192}]}}, 131_072),
        ({"/v1/models": [{**MODEL, "max_context_length": 32_768}]}, 32_768),
        ({"/v1/models": {"data": [{**MODEL, "meta": {"n_ctx_train": 8192}}]}}, 8192),
        (
            {
                "/v1/models": {"data": [{**MODEL, "meta": {"n_ctx_train": 8192}}]},
                "/props": {"default_generation_settings": {"n_ctx": 4096}},
            },
            4096,
        ),
        ({"/v1/models": {"data": [MODEL]}, "/api/ps": {"models": [{"model": "m", "context_length": 4096}]}}, 4096),
        ({"/v1/models": {"data": [MODEL]}, "/info": {"max_total_tokens": 8192, "max_input_tokens": 4095}}, 8192),
        ({"/v1/models": {"data": [{"id": "other", "max_model_len": 4096}, {"id": "third"}]}}, None),
        ({"/v1/models": {"data": [{**MODEL, "context_length": True, "context_window": -1, "n_ctx": 10**12}]}}, None),
        ({"/v1/models": "<html>"}, None),
        ({}, None),
    ],
)
def test_the_length_of_a_context_is_read_from_what_servers_list(answers, length):
    async def listed(request):
        return web.json_response(answers[request.path]) if request.path in answers else web.Response(status=404)

    app = web.Application()
    app.router.add_get("/{path:.*}", listed)
    with run_in_background(app) as url:
        assert in_gateway(lambda gateway: context_length(gateway, settings_for(url, "m"))) == length


# ------------------------------------------------------------------------------------------ usage


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ({"prompt_tokens": 7.0, "completion_tokens": "3"}, Usage(7, 3)),
        ({"input_tokens": 7, "output_tokens": 3}, Usage(7, 3)),
        ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}, Usage(7, 3, 4)),
        ({"prompt_tokens": 7, "total_tokens": 10}, Usage(7, 3)),
        ({"promptTokens": 6.2, "completionTokens": "3.0"}, Usage(7, 3)),
        ({"prompt_eval_count": 7, "eval_count": 3}, Usage(7, 3)),
        ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": "4"}}, Usage(7, 3, 4)),
        ({"prompt_tokens": 7, "completion_tokens": 3, "num_cached_tokens": 99}, Usage(7, 3, 7)),
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 30}, Usage(7, 23)),
        ({"input_tokens": 2, "output_tokens": 3, "cache_read_input_tokens": 5}, Usage(7, 3, 5)),
        ({"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 5}}, Usage(7, 3, 5)),
        (  # Anthropic's own form, as LiteLLM passes it on
            {"input_tokens": 2, "output_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 4},
            Usage(11, 3, 5, tokens_written=4),
        ),
        (  # OpenRouter
            {
                "prompt_tokens": 9,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 4},
            },
            Usage(9, 3, 5, tokens_written=4),
        ),
        (  # more than there is
            {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cache_write_tokens": 99}},
            Usage(9, 3, tokens_written=9),
        ),
        (
            {"prompt_tokens": 7, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 50}},
            Usage(7, 53, tokens_reasoning=50),
        ),
    ],
)
def test_usage_is_read_in_any_form(usage, read):
    ledger = Ledger()
    with fake_endpoint({**completion("fine"), "usage": usage}) as target:
        ask(target.url, ledger)
    assert usage_of(ledger[0]) == read


@pytest.mark.parametrize(
    "usage", [None, {}, [], {"prompt_tokens": None, "completion_tokens": -1}, {"prompt_tokens": 2**40}, {"x": 1}]
)
def test_a_call_without_usage_costs_an_upper_estimate(usage):
    ledger = Ledger()
    body = {**completion("Rest, and drink. 多喝水。"), "usage": usage}
    with fake_endpoint(body) as target:
        ask(target.url, ledger, price_in=Decimal(10), price_out=Decimal(20))
    used = usage_of(ledger[0])
    assert used == Usage(6, 17, estimated=True)
    assert used.cost(ledger[0].settings) == Decimal(6 * 10 + 17 * 20) / 10**6


def test_cached_tokens_have_a_price_of_their_own():
    settings = settings_for("http://x/v1", price_in=Decimal(10), price_out=Decimal(0))
    usage = Usage(1_000_000, 0, 900_000)
    assert usage.cost(settings) == Decimal(10)
    assert usage.cost(replace(settings, price_cached=Decimal(1))) == Decimal("1.9")
    written = replace(usage, tokens_written=100_000)
    assert written.cost(replace(settings, price_cached=Decimal(1))) == Decimal("1.9")
    both = replace(settings, price_cached=Decimal(1), price_written=Decimal("12.5"))
    assert written.cost(both) == Decimal("2.15")


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{**completion("B")["choices"][0], "index": 1}, {**completion("A")["choices"][0], "index": 0}]},
        completion(["A"]),
        {**completion("A"), "base_resp": {"status_code": 0, "status_msg": "success"}},
        {**completion("A"), "error": None, "errors": []},
        {**completion("A"), "error": {"code": None, "message": ""}},
        completion([{"type": "text", "text": {"value": "A"}}]),
        completion([{"type": "text", "content": "A"}]),
        completion([{"text": "Hm.", "thought": True}, {"text": "A"}]),
        completion([{"type": "reasoning_text", "text": "Hm."}, {"type": "output_text", "text": "A"}]),
    ],
)
def test_what_is_unusual_in_a_good_reply_does_no_harm(body):
    with fake_endpoint(body) as target:
        assert ask(target.url).text == "A"


def test_raw_line_breaks_in_the_strings_of_a_body_stand_for_themselves():
    with fake_endpoint(Answer(json.dumps(completion("A;B")).replace(";", "\n"))) as target:
        assert ask(target.url).text == "A\nB"


def test_an_ending_that_is_no_text_keeps_its_name():
    choice = {**completion("Half")["choices"][0], "finish_reason": 2}
    with (
        fake_endpoint({**completion("Half"), "choices": [choice]}) as target,
        pytest.raises(UnknownEnding, match="says: 2"),
    ):
        ask(target.url)


def test_reasoning_is_read_from_the_fields_of_all_providers():
    for message in (
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"thinking": "Hm."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "Hm."}]},
    ):
        with fake_endpoint(completion("No.", **message)) as target:
            reply = ask(target.url)
        assert (reply.text, reply.reasoning) == ("No.", "Hm.")


def test_marks_that_an_endpoint_sets_later_apply_to_replies_paid_for_before():
    async def find(_identity):
        return [PaidReply(1, Reply("~Hm~No.", finish_reason="stop"))]

    async def work(gateway):
        settings = settings_for("http://127.0.0.1:9/v1", reasoning_start="~", reasoning_end="~")
        return await gateway.ask(settings, HELLO, ledger=LedgerHooks(Ledger(), find=find))

    reply = in_gateway(work)
    assert (reply.text, reply.reasoning) == ("No.", "Hm")
