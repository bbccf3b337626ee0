"""Structured replies: schemas, validation, repair of broken replies."""

from enum import StrEnum

import pytest
from pydantic import BaseModel

from generation.llm.errors import BadRequest, BrokenReply
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message, ModelSettings, Request
from tests.generation.llm.helpers import (
    HELLO,
    Answer,
    Ledger,
    completion,
    error_body,
    fake_endpoint,
    in_gateway,
    settings_for,
)

GOOD = '{"criteria_met": true, "explanation": "It names the dose."}'


class Verdict(BaseModel):
    criteria_met: bool
    explanation: str


class Severity(StrEnum):
    MILD = "mild"
    SEVERE = "severe"


class Finding(BaseModel):
    severity: Severity
    spans: tuple[str, ...] = ()


def ask_structured(url, shape=Verdict, ledger=None, model="sim-judge", **options):
    fields = {name: options.pop(name) for name in ModelSettings.__slots__ if name in options}
    return in_gateway(
        lambda gateway: gateway.ask_structured(settings_for(url, model, **fields), HELLO, shape, **options), ledger
    )


def test_the_schema_is_sent_and_the_reply_becomes_a_value():
    with fake_endpoint(GOOD) as target:
        reply, verdict = ask_structured(target.url)
    assert verdict == Verdict(criteria_met=True, explanation="It names the dose.")
    assert reply.text == GOOD
    sent = target.bodies[0]["response_format"]["json_schema"]
    assert sent["name"] == "Verdict"
    assert sent["strict"] is True
    assert sent["schema"]["additionalProperties"] is False
    assert sent["schema"]["required"] == ["criteria_met", "explanation"]


def test_strict_validation_reads_enums_and_tuples():
    with fake_endpoint('{"severity": "severe", "spans": ["a", "b"]}') as target:
        _, finding = ask_structured(target.url, Finding)
    assert finding == Finding(severity=Severity.SEVERE, spans=("a", "b"))


def test_a_broken_reply_is_sent_back_to_the_model_with_the_reason():
    wrong_type = '{"criteria_met": "true", "explanation": "x"}'
    ledger = Ledger()
    with fake_endpoint("I would say yes.", wrong_type, GOOD) as target:
        reply, verdict = ask_structured(target.url, ledger=ledger, tries=3)
    assert verdict.criteria_met is True
    assert reply.text == GOOD
    last = target.bodies[-1]["messages"]
    assert last[0] == {"role": "user", "content": HELLO.messages[0].content}
    assert [message["role"] for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert [last[1]["content"], last[3]["content"]] == ["I would say yes.", wrong_type]
    assert "no complete JSON object" in last[2]["content"]
    assert "criteria_met: Input should be a valid boolean" in last[4]["content"]
    assert [attempt.error for attempt in ledger] == ["", "", ""]
    sent = ledger[-1].request
    assert isinstance(sent, Request)
    assert len(sent.messages) == 5


@pytest.mark.parametrize("value", ['"true"', "1", "null", '"yes"', "[true]"])
def test_only_a_boolean_is_a_boolean(value):
    with fake_endpoint(f'{{"criteria_met": {value}, "explanation": ""}}') as target, pytest.raises(BrokenReply):
        ask_structured(target.url, tries=1)


def test_the_caller_can_refuse_a_value_with_a_reason():
    def check(verdict):
        if not verdict.explanation:
            raise BrokenReply("The explanation is empty.")

    with fake_endpoint('{"criteria_met": true, "explanation": ""}', GOOD) as target:
        _, verdict = ask_structured(target.url, check=check)
    assert verdict.explanation
    assert "The explanation is empty." in target.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize("tries", [1, 2, 3])
def test_the_final_error_has_the_last_reason_and_the_last_reply(tries):
    ledger = Ledger()
    with fake_endpoint(*["no"] * (tries - 1), '{"criteria_met": true}') as target, pytest.raises(BrokenReply) as caught:
        ask_structured(target.url, ledger=ledger, tries=tries)
    assert caught.value.permanent
    assert "explanation: Field required" in caught.value.detail
    assert caught.value.reply is not None
    assert caught.value.reply.text == '{"criteria_met": true}'
    assert len(target.bodies) == len(ledger) == tries


def test_by_default_a_model_may_repair_its_reply_once():
    with fake_endpoint("no", "no", GOOD) as target, pytest.raises(BrokenReply):
        ask_structured(target.url)
    assert len(target.bodies) == 2


def test_an_empty_reply_is_broken_and_can_be_sent_back():
    with fake_endpoint(completion(None), GOOD) as target:
        ask_structured(target.url)
    assert target.bodies[1]["messages"][1]["content"] == "(empty)"


@pytest.mark.parametrize(("limit", "asked"), [(None, [16_384, 32_768]), (100, [100, 200])])
def test_a_reply_that_was_cut_off_is_asked_for_with_more_room_and_no_longer_prompt(limit, asked):
    with fake_endpoint(completion('{"criteria_met": tr', finish_reason="length"), GOOD) as target:
        ask_structured(target.url, max_tokens=limit)
    assert [body.get("max_tokens") for body in target.bodies] == asked
    assert target.bodies[1]["messages"] == target.bodies[0]["messages"]


@pytest.mark.parametrize(
    "second",
    [
        Answer(error_body("too long", code="context_length_exceeded"), 400),
        completion('{"criteria_met": tr', finish_reason="MAX_TOKENS"),
        completion("no JSON at all"),
    ],
)
def test_the_first_reason_stands_if_the_repair_of_a_cut_off_reply_fails(second):
    with (
        fake_endpoint(completion('{"criteria_met": tr', finish_reason="length"), second) as target,
        pytest.raises(BrokenReply, match="cut off at the token limit"),
    ):
        ask_structured(target.url)
    assert len(target.bodies) == 2


def test_a_cut_off_reply_is_not_asked_for_again_where_the_context_has_no_more_room():
    cut = completion('{"criteria_met": tr', finish_reason="length")
    cut["usage"] = {"prompt_tokens": 3_500, "completion_tokens": 596}
    with fake_endpoint(cut) as target, pytest.raises(BrokenReply, match="cut off"):
        ask_structured(target.url, context_tokens=4_096)
    assert len(target.bodies) == 1
    assert target.bodies[0]["max_tokens"] > 4_000, "the prompt is short"


def test_reasoning_is_not_sent_back():
    with fake_endpoint("<think>It is: " + GOOD + "</think>", GOOD) as target:
        ask_structured(target.url)
    assert target.bodies[1]["messages"][1]["content"] == "(empty)"


@pytest.mark.parametrize("placeholder", ["...", "...?"])
def test_a_placeholder_of_the_instructions_is_no_text_unless_the_data_has_it(placeholder):
    copied = GOOD.replace("It names the dose.", placeholder)
    example = Message("system", f"Answer with {copied}")

    def asked(*messages):
        with fake_endpoint(copied, GOOD) as target:
            in_gateway(
                lambda gateway: gateway.ask_structured(settings_for(target.url), Request((example, *messages)), Verdict)
            )
        return len(target.bodies)

    assert asked(Message("user", "Is the dose named?")) == 2
    assert asked(Message("user", f'Is the dose named in "{placeholder}"?')) == 1


def test_transport_errors_keep_their_own_retries():
    ledger = Ledger()
    with fake_endpoint("no", Answer("down", 500), Answer("down", 502), GOOD) as target:
        ask_structured(target.url, ledger=ledger, tries=2)
    assert [(attempt.number, attempt.error) for attempt in ledger] == [
        (1, ""),
        (1, "ServerError"),
        (2, "ServerError"),
        (3, ""),
    ]


def test_permanent_errors_are_not_mistaken_for_replies():
    with fake_endpoint(Answer("no", 400)) as target, pytest.raises(BadRequest):
        ask_structured(target.url, output_format="json_schema")
    assert len(target.bodies) == 1


class _GoodJudge:
    def reply(self, model, messages, seed):
        return GOOD


@pytest.mark.parametrize("fault", ["broken-json", "wrong-schema", "refusal"])
def test_a_simulated_model_that_always_fails_ends_in_a_broken_reply(fault):
    with run_in_background(make_app([_GoodJudge()])) as url, pytest.raises(BrokenReply) as caught:
        ask_structured(url, model=f"sim-judge+{fault}")
    assert caught.value.reply is not None
    assert caught.value.reply.simulated


@pytest.mark.parametrize("fault", ["429", "500", "cut", "broken-json", "wrong-schema", "refusal"])
def test_a_simulated_model_that_sometimes_fails_succeeds_in_the_end(fault):
    ledger = Ledger()

    async def ask_eight(gateway):
        for number in range(8):
            request = Request((Message("user", f"Question {number}"),))
            _, verdict = await gateway.ask_structured(
                settings_for(url, f"sim-judge+{fault}@0.4"), request, Verdict, tries=8
            )
            assert verdict.criteria_met is True

    with run_in_background(make_app([_GoodJudge()], seed=5, retry_after=0)) as url:
        in_gateway(ask_eight, ledger, attempts=8)
    assert len(ledger) > 8  # the fault did strike
