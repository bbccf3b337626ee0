from enum import StrEnum

import pytest
from pydantic import BaseModel

from generation.llm.errors import BadRequest, BrokenReply
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message, Request
from tests.generation.llm.helpers import HELLO, Answer, Ledger, endpoint, in_gateway, said, settings_for

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
    return in_gateway(lambda gateway: gateway.ask_structured(settings_for(url, model), HELLO, shape, **options), ledger)


def test_a_value_of_the_shape_and_the_schema_it_was_asked_with():
    with endpoint(GOOD) as seen:
        reply, verdict = ask_structured(seen.url)
    assert verdict == Verdict(criteria_met=True, explanation="It names the dose.")
    assert reply.text == GOOD
    asked = seen.bodies[0]["response_format"]["json_schema"]
    assert asked["name"] == "Verdict"
    assert asked["strict"] is True
    assert asked["schema"]["additionalProperties"] is False
    assert asked["schema"]["required"] == ["criteria_met", "explanation"]


def test_strict_still_reads_enums_and_tuples():
    with endpoint('{"severity": "severe", "spans": ["a", "b"]}') as seen:
        _, finding = ask_structured(seen.url, Finding)
    assert finding == Finding(severity=Severity.SEVERE, spans=("a", "b"))


def test_a_broken_reply_is_put_back_to_the_model_with_the_reason():
    wrong_type = '{"criteria_met": "true", "explanation": "x"}'
    ledger = Ledger()
    with endpoint("I would say yes.", wrong_type, GOOD) as seen:
        reply, verdict = ask_structured(seen.url, ledger=ledger, tries=3)
    assert verdict.criteria_met is True
    assert reply.text == GOOD
    last = seen.bodies[-1]["messages"]
    assert last[0] == {"role": "user", "content": HELLO.messages[0].content}
    assert [message["role"] for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert [last[1]["content"], last[3]["content"]] == ["I would say yes.", wrong_type]
    assert "no complete JSON object" in last[2]["content"]
    assert "criteria_met: Input should be a valid boolean" in last[4]["content"]
    assert [attempt.error for attempt in ledger] == ["", "", ""]
    asked = ledger[-1].request
    assert isinstance(asked, Request)
    assert len(asked.messages) == 5


@pytest.mark.parametrize("value", ['"true"', "1", "null", '"yes"', "[true]"])
def test_only_a_boolean_is_a_boolean(value):
    with endpoint(f'{{"criteria_met": {value}, "explanation": ""}}') as seen, pytest.raises(BrokenReply):
        ask_structured(seen.url, tries=1)


def test_the_caller_can_refuse_a_value_with_a_reason():
    def check(verdict):
        if not verdict.explanation:
            raise BrokenReply("The explanation is empty.")

    with endpoint('{"criteria_met": true, "explanation": ""}', GOOD) as seen:
        _, verdict = ask_structured(seen.url, check=check)
    assert verdict.explanation
    assert "The explanation is empty." in seen.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize("tries", [1, 2, 3])
def test_it_gives_up_with_the_last_reason_and_the_last_reply(tries):
    own = Ledger()
    with endpoint(*["no"] * (tries - 1), '{"criteria_met": true}') as seen, pytest.raises(BrokenReply) as caught:
        ask_structured(seen.url, ledger=own, tries=tries)
    assert caught.value.permanent
    assert "explanation: Field required" in caught.value.detail
    assert caught.value.reply is not None
    assert caught.value.reply.text == '{"criteria_met": true}'
    assert len(seen.bodies) == len(own) == tries


def test_it_is_shown_its_error_once():
    with endpoint("no", "no", GOOD) as seen, pytest.raises(BrokenReply):
        ask_structured(seen.url)
    assert len(seen.bodies) == 2


def test_an_empty_reply_is_a_broken_one_that_can_be_put_back():
    with endpoint(said(None), GOOD) as seen:
        ask_structured(seen.url)
    assert seen.bodies[1]["messages"][1]["content"] == "(empty)"


def test_a_reply_cut_at_the_token_limit_is_told_so():
    with endpoint(said('{"criteria_met": tr', finish_reason="length"), GOOD) as seen:
        ask_structured(seen.url)
    assert "token limit" in seen.bodies[1]["messages"][-1]["content"]


def test_reasoning_is_not_put_back():
    with endpoint("<think>" + GOOD + "</think>", GOOD) as seen:
        ask_structured(seen.url)
    assert seen.bodies[1]["messages"][1]["content"] == "(empty)"


def test_transport_errors_keep_their_own_retries():
    ledger = Ledger()
    with endpoint("no", Answer("down", 500), Answer("down", 502), GOOD) as seen:
        ask_structured(seen.url, ledger=ledger, tries=2)
    assert [(attempt.number, attempt.error) for attempt in ledger] == [
        (1, ""),
        (1, "ServerError"),
        (2, "ServerError"),
        (3, ""),
    ]


def test_permanent_errors_are_not_mistaken_for_replies():
    with endpoint(Answer("no", 400)) as seen, pytest.raises(BadRequest):
        ask_structured(seen.url)
    assert len(seen.bodies) == 1


class _Judge:
    def reply(self, model, messages, seed):
        return GOOD


@pytest.mark.parametrize("fault", ["broken-json", "wrong-schema", "refusal"])
def test_the_simulated_model_that_never_gets_it_right(fault):
    with run_in_background(make_app([_Judge()])) as url, pytest.raises(BrokenReply) as caught:
        ask_structured(url, model=f"sim-judge+{fault}")
    assert caught.value.reply is not None
    assert caught.value.reply.simulated


@pytest.mark.parametrize("fault", ["429", "500", "cut", "broken-json", "wrong-schema", "refusal"])
def test_the_simulated_model_that_gets_it_right_in_the_end(fault):
    ledger = Ledger()

    async def eight(gateway):
        for number in range(8):
            request = Request((Message("user", f"Question {number}"),))
            _, verdict = await gateway.ask_structured(
                settings_for(url, f"sim-judge+{fault}@0.4"), request, Verdict, tries=8
            )
            assert verdict.criteria_met is True

    with run_in_background(make_app([_Judge()], seed=4, retry_after=0)) as url:
        in_gateway(eight, ledger, attempts=8)
    assert len(ledger) > 8  # it did strike
