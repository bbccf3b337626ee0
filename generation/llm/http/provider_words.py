"""What providers' words mean: how a reply ended, and of which class an error is.

One closed table each. Words are compared in lower case and without punctuation, so that
``MAX_TOKENS``, ``max_tokens`` and ``maxTokens`` are one entry. An ending that is not here is
unknown until somebody decides it for its endpoint. Of an error, its codes decide before its status,
and its wording decides last.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

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
)


class Ending(StrEnum):
    """How a reply ended."""

    COMPLETE = "complete"
    CUT_OFF = "cut_off"
    FILTERED = "filtered"
    REFUSED = "refused"
    FAILED = "failed"  # the provider failed
    TOOL_CALL = "tool_call"  # none was offered, so this is a broken reply
    UNKNOWN = "unknown"


# What may be decided about an ending that is not in the table.
DECISIONS = (Ending.COMPLETE, Ending.CUT_OFF, Ending.FILTERED, Ending.REFUSED, Ending.FAILED)
NO_ENDING = "none"  # the name of an ending that the endpoint left out

ENDINGS: Mapping[Ending, str] = {
    Ending.COMPLETE: """
        stop eos eos_token eos_found end_turn end_of_turn end_of_text end_of_sequence stop_sequence
        stop_sequences stop_string_found stop_token stop_word stop_words matched_stop im_end eot_id eot eom complete
        completed finish finished end done normal natural stop_criteria_met stop_sequence_reached stop_str end_id
    """,
    Ending.CUT_OFF: """
        length max_tokens max_length max_token max_output_tokens max_completion_tokens max_new_tokens maximum_tokens
        max_predicted_tokens_reached token_limit limit model_length model_context_window_exceeded context_length
        context_length_exceeded context_length_reached context_window_exceeded context_limit error_limit incomplete
        not_finished time_limit pause_turn repetition truncated tokens output_limit length_limit token_budget
        context_overflow max_context_length max_context_length_reached too_long max_len max_output
        max_tokens_reached max_new_tokens_reached token_limit_reached out_of_tokens context_full compaction
    """,
    Ending.FILTERED: """
        content_filter content_filtered content_filter_error filter filtered safety recitation blocklist
        prohibited_content spii language model_armor image_safety image_prohibited_content image_recitation
        guardrail_intervened guardrail guardrails error_toxic sensitive moderation flagged blocked risk
        content_policy_violation policy_violation content_blocked content_filter_triggered unsafe harmful safety_block
        blocked_by_safety censored sensitive_words blacklist
    """,
    Ending.REFUSED: "refusal refused refuse declined",
    Ending.FAILED: """
        error other unspecified insufficient_system_resource insufficient_system_resources abort aborted cancel
        cancelled canceled user_cancel user_stopped interrupted load unload model_unloaded network_error engine_error
        engine_overloaded server_error internal_error timeout image_other no_image missing_thought_signature
        malformed_response failed failure overload overloaded unavailable rate_limit deadline shutdown server_shutdown
        preempted disconnected client_disconnect abort_request aborted_by_user user_abort timed_out
        server_overloaded killed
    """,
    Ending.TOOL_CALL: """
        tool_calls tool_call tool_use function_call function_calls malformed_function_call malformed_tool_call
        malformed_model_output unexpected_tool_call too_many_tool_calls
    """,
}

# Codes of errors (`code`, `type`, `status`, `reason`, also of inner errors). The first class that
# has one of an error's codes decides. Those of BadRequest, and its wordings, are about the output
# format.
CODES: Mapping[type[LLMError], str] = {
    ContentFiltered: """
        content_filter content_filtered content_filter_error content_policy content_policy_violation
        content_policy_violation_error responsible_ai_policy_violation moderation moderation_blocked moderation_error
        content_moderation data_inspection_failed inappropriate_content sensitive_content sensitive_content_detected
        input_text_sensitive_content_detected output_text_sensitive_content_detected risk_control prompt_blocked
        content_blocked content_violation policy_violation usage_policy_violation safety safety_violation
        prohibited_content guardrail_intervened blocked_by_guardrail invalid_prompt flagged 1301
    """,
    BrokenReply: """
        json_validate_failed json_validation_failed tool_use_failed output_parse_failed output_parsing_failed
        invalid_model_output model_output_error structured_output_error
    """,
    BadRequest: """
        unsupported_response_format invalid_response_format invalid_json_schema json_schema_not_supported
        invalid_schema response_format_unsupported structured_outputs_not_supported grammar_error
    """,
    ContextTooLong: """
        context_length_exceeded context_window_exceeded context_window_exceeded_error exceed_context_size_error
        model_context_window_exceeded string_above_max_length input_too_long prompt_too_long tokens_limit_reached
        context_too_long request_too_large
    """,
    NoCredit: """
        insufficient_quota billing_hard_limit_reached billing_not_active insufficient_balance insufficient_credits
        insufficient_credit insufficient_funds insufficient_user_quota credit_balance_too_low payment_required
        arrearage billing_error budget_exceeded exceeded_budget exceeded_current_quota_error
    """,
    RateLimited: """
        rate_limit_exceeded rate_limit rate_limit_error rate_limited too_many_requests too_many_requests_error
        resource_exhausted throttling throttled throttling_exception requests_limit_exceeded
        service_quota_exceeded_exception
    """,
    AuthFailed: """
        invalid_api_key authentication_error invalid_authentication invalid_authentication_error unauthenticated
        unauthorized api_key_invalid invalid_key account_deactivated permission_denied permission_error incorrect_api_key
    """,
    NotFound: """
        model_not_found model_not_available model_decommissioned deployment_not_found unknown_model invalid_model
        model_does_not_exist no_such_model model_not_supported
    """,
    TimedOut: "request_timeout deadline_exceeded",
    ServerError: """
        overloaded overloaded_error engine_overloaded engine_overloaded_error server_error internal_error
        internal_server_error service_unavailable unavailable unavailable_error model_loading model_not_ready
    """,
}

STATUSES: Mapping[int, type[LLMError]] = {
    401: AuthFailed,
    402: NoCredit,
    403: AuthFailed,
    408: TimedOut,
    409: ServerError,
    424: ServerError,  # a part of the provider's own failed
    425: ServerError,
    429: RateLimited,
    451: ContentFiltered,
    498: ServerError,  # over capacity
    499: ServerError,  # given up on by a proxy
}  # others: ServerError from 500, BadRequest below

# Wordings, where neither codes nor status say more than "bad request", "forbidden" or "too many".
# Each is one scan: no pattern repeats a repetition.
WORDINGS: Mapping[type[LLMError], str] = {
    BrokenReply: r"not (?:produce|generate|return|output) (?:a )?valid json|failed to (?:generate|"
    r"validate|produce|parse)(?: the)?(?: generated| model's| model)? (?:json|output)|generated json does not|(?:model"
    r"(?:'s)?|generated) (?:output|reply|response|generated)[ a-z]{0,30}(?:not valid|not match|invalid|malformed)"
    r"|parse the model|model produced invalid",
    ContentFiltered: r"moderation|\bflagged|content[ _-]?(?:filter|policy|management|exists risk|safety)|safety (?:system|"
    r"filter|polic|guideline|setting)|usage polic|acceptable use|responsible ai|inappropriate|prohibited content|"
    r"sensitive (?:content|information|word)|new_sensitive|harmful content|guardrail|usage guideline|violates? (?:our|the) "
    r"(?:polic|terms)|敏感内容|敏感词|敏感信息",
    ContextTooLong: r"context[ _-](?:length|window|size|limit)|max_new_tokens` must be|maximum context|prompt is too long|"
    r"input is too long|too many (?:input |prompt )?tokens|reduce the length|maximum (?:model|input|sequence) length|"
    r"must have less than \d{1,9} tokens|exceeds? the (?:maximum|available) "
    r"(?:number of tokens|context|input)|input length should be|input tokens exceeds|max message tokens"
    r"|sequence length \d{1,9} exceeds",
    NoCredit: r"credit balance|insufficient (?:balance|credits?|funds)|more credits|out of credits?|available credits"
    r"|spending limit|over budget|budget has been exceeded|api usage limits|key limit exceeded|余额不足|欠费",
    AuthFailed: r"(?:invalid|incorrect|missing|wrong|expired) (?:api|secret|access)[ _-]?(?:key|token)|(?:api|secret) key "
    r"(?:is )?(?:not valid|invalid|incorrect|expired|missing)|carry the api secret|organization has been disabled",
    RateLimited: r"rate[ -]?limit|too many requests|tokens per min",
    BadRequest: r"response[ _]?format|json[ _]?schema|json[ _]?object|json[ _]?mode|structured[ _]?output|guided[ _]?"
    r"(?:json|decoding|grammar)|\bgrammar|xgrammar|outlines|llguidance|additionalproperties|requested parameters",
    StreamsOnly: r"only supports? (?:the )?stream|enable the stream|stream(?:ing)? (?:mode )?(?:is )?(?:required|mandatory)"
    r"|stream[^.]{0,30} (?:must be|has to be|should be|to) (?:set to )?true",
    NotFound: r"not a valid model|no such model|model [^ ]{0,100} ?(?:does not exist|not found|is not available)",
}
# Names of errors in the text of a proxy.
NAMED = re.compile(r"\blitellm\.([A-Za-z]{1,60})")
# "insufficient quota" is what some providers say for "not so fast".
ABOUT_RATE = re.compile(
    r"per[ -]?(?:second|minute|hour|day)|rate[ -]?limit|token[ -]limit|\b[rt]p[md]\b|(?:retry|try again) (?:in|after)"
    r"|slow down",
    re.IGNORECASE,
)

_PREFIX = re.compile(r"^(?:finish|stop)?reason")


def plain(word: str) -> str:
    """A provider's word without case and punctuation, as the tables compare it."""
    return re.sub(r"[^a-z0-9]", "", word[:100].casefold())


def _by_word(table: Mapping[object, str]) -> dict[str, object]:
    return {plain(word): meaning for meaning, words in table.items() for word in words.split()}


_ENDING_OF = _by_word(ENDINGS)  # type: ignore[arg-type]
_CLASS_OF = {kind: frozenset(map(plain, words.split())) for kind, words in CODES.items()}
_WORDING = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in WORDINGS.items()}


def ending_of(finish_reason: str, decided: Mapping[str, str] | None = None) -> Ending:
    """What a finish reason means; UNKNOWN for one that neither the table nor `decided` has.

    `decided`: what people decided about endings of the endpoint, by their names.
    """
    word = _PREFIX.sub("", plain(finish_reason), count=1) or NO_ENDING
    known = _ENDING_OF.get(word)
    if known is None:
        known = {plain(name): meaning for name, meaning in (decided or {}).items()}.get(word, Ending.UNKNOWN)
    return Ending(str(known))


def error_class(status: int, codes: Iterable[str], param: str, text: str, *, waits: bool = False) -> type[LLMError]:
    """The class of an error. `param`: the field at fault; `waits`: it came with a Retry-After.

    `status`: 0 where none was said, so that the wording decides.
    """
    words = {plain(code) for code in (*codes, *NAMED.findall(text))}
    for kind, known in _CLASS_OF.items():
        if words & known:
            if kind is NoCredit and (waits or ABOUT_RATE.search(text)):
                return RateLimited
            return kind
    if plain(param).startswith(("responseformat", "textformat", "guided", "jsonschema", "grammar")):
        return BadRequest
    by_status = STATUSES.get(status) or (ServerError if status >= 500 else BadRequest)
    if not status:
        return next((kind for kind, wording in _WORDING.items() if wording.search(text)), ServerError)
    if status in (403, 429):
        others = (ContentFiltered, NoCredit) if status == 403 else (NoCredit,)
        about_rate = waits or ABOUT_RATE.search(text)
        found = next((kind for kind in others if _WORDING[kind].search(text)), by_status)
        return by_status if found is NoCredit and about_rate else found
    if by_status is BadRequest:
        return next((kind for kind, wording in _WORDING.items() if wording.search(text)), BadRequest)
    if status >= 500 and speaks_of_format(text):
        return BadRequest
    return by_status


def speaks_of_format(text: str) -> bool:
    """Whether an error's wording is about the output format."""
    return _WORDING[BadRequest].search(text) is not None
