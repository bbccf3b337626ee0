"""The simulator: the protocol of chat completions, scripts, faults, and the server process."""

import json
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from collections import Counter
from http.client import IncompleteRead

import pytest

from generation.llm.simulator.faults import Fault, FaultKind, draw_fault, parse_fault, parse_model
from generation.llm.simulator.script import DEFAULT_ANSWER, Asked, chance
from generation.llm.simulator.server import MODELS, CannotListen, make_app, run_in_background, serve
from generation.llm.types import Message


class Echo:
    """A script that answers messages that begin with its word."""

    def __init__(self, word):
        self.word = word

    def reply(self, model, messages, seed):
        text = messages[-1].content
        return f"{self.word} {model} {seed}" if text.startswith(self.word) else None


class Broken:
    """A script that raises."""

    def reply(self, model, messages, seed):
        raise RuntimeError("a mistake in a script")


def fetch(url, body=None):
    """(status, headers, JSON body) of a GET, or of a POST with this body."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as response:
            return response.status, response.headers, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


def question(text="hello", model="sim-judge", **more):
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


def complete(url, *args, **more):
    return fetch(f"{url}/chat/completions", question(*args, **more))


@pytest.fixture(scope="module")
def url():
    with run_in_background(make_app([Echo("ping"), Echo("pong")], seed=5, retry_after=2.5)) as url:
        yield url


def test_a_completion_follows_the_protocol(url):
    status, headers, body = complete(url, "ping")
    assert status == 200
    assert headers.get_content_type() == "application/json"
    assert body["object"] == "chat.completion"
    assert body["system_fingerprint"] == "mhb-simulator"
    assert body["model"] == "sim-judge"
    assert body["id"]
    [choice] = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": "ping sim-judge 5"}
    assert choice["finish_reason"] == "stop"
    assert body["usage"] == {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}


def test_a_script_reads_the_data_that_it_is_asked_about():
    example, reply, asked, correction = (
        Message("user", '<<<ANSWER\n"B12"\nANSWER>>>'),
        Message("assistant", "It is B12."),
        Message("user", '<<<ANSWER\n"Aspirin"\nANSWER>>>'),
        Message("user", "Your last reply cannot be used."),
    )
    for messages in ([asked], [example, reply, asked], [example, reply, asked, reply, correction]):
        request = Asked("sim-generator", messages, seed=0)
        assert (request.turn, request.data) == (asked, {"ANSWER": "Aspirin"})
    assert Asked("sim-generator", [asked, reply], seed=0).turn == asked
    without_data = Message("user", "Look at this picture.")
    assert Asked("sim-generator", [without_data, reply, correction], seed=0).turn == without_data


def test_scripts_are_asked_in_turn_and_then_the_default_answers(url):
    texts = [complete(url, text)[2]["choices"][0]["message"]["content"] for text in ("ping", "pong", "something else")]
    assert texts == ["ping sim-judge 5", "pong sim-judge 5", DEFAULT_ANSWER]


def test_a_script_gets_the_models_name_without_its_faults(url):
    _, _, body = complete(url, "ping", model="sim-careful+500@0.0")
    assert body["choices"][0]["message"]["content"] == "ping sim-careful 5"
    assert body["model"] == "sim-careful+500@0.0"


def test_max_tokens_cuts_the_answer(url):
    _, _, body = complete(url, "ping", max_tokens=2)
    assert body["choices"][0]["message"]["content"] == "ping sim"
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 2


def test_the_models_are_listed(url):
    status, _, body = fetch(f"{url}/models")
    assert status == 200
    assert [model["id"] for model in body["data"]] == list(MODELS)


@pytest.mark.parametrize("model", ["gpt", "sim-judge+teapot", "sim-judge+500@2", "+500"])
def test_an_unknown_model_is_not_found(url, model):
    status, _, body = complete(url, model=model)
    assert (status, body["error"]["code"], body["error"]["param"]) == (404, "model_not_found", "model")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"not json", None),
        (b"[" * 100_000, None),
        ([], None),
        ({"messages": [{"role": "user", "content": "x"}]}, "model"),
        (question(model=7), "model"),
        ({"model": "sim-judge"}, "messages"),
        ({"model": "sim-judge", "messages": []}, "messages"),
        ({"model": "sim-judge", "messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"model": "sim-judge", "messages": [{"role": "user"}]}, "messages.0.content"),
        (question(temperature=3), "temperature"),
        (question(max_tokens=0), "max_tokens"),
        (question(stream=True), "stream"),
        (question(n=2), "n"),
    ],
)
def test_a_wrong_request_is_refused_in_the_protocols_shape(url, body, param):
    status, _, answer = fetch(f"{url}/chat/completions", body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == param
    assert answer["error"]["message"]


def test_other_paths_and_methods_are_refused_in_the_protocols_shape(url):
    assert fetch(f"{url}/audio/speech", {})[0] == 404
    status, _, body = fetch(f"{url}/chat/completions")
    assert status == 405
    assert body["error"]["message"]


def test_a_script_that_fails_is_a_500_and_a_traceback_in_the_log(caplog):
    with run_in_background(make_app([Broken()])) as url:
        status, _, body = complete(url)
    assert status == 500
    assert "RuntimeError" in body["error"]["message"]
    assert "a mistake in a script" in caplog.text


def test_the_server_counts_its_requests():
    with run_in_background(make_app([], faults=["refusal"], hang=0)) as url:
        assert complete(url)[0] == 200
        assert complete(url, model="sim-careful+500")[0] == 500
        assert complete(url, model="sim-careful+timeout")[0] == 504
        assert complete(url, model="gpt")[0] == 404
        stats = fetch(url.removesuffix("/v1") + "/stats")[2]
    assert stats == {
        "requests": 4,
        "by_model": {"sim-judge": 1, "sim-careful": 2, "gpt": 1},
        "by_status": {"200": 1, "500": 1, "timeout": 1, "404": 1},
        "peak_in_flight": 1,
        "images": 0,
        "embedded": 0,
        "files": 0,
        "batches": 0,
        "batch_requests": 0,
        "batch_billed": 0,
    }


# Faults


def test_a_429_says_when_to_come_back(url):
    status, headers, body = complete(url, model="sim-judge+429")
    assert (status, headers["Retry-After"], body["error"]["code"]) == (429, "2.5", "rate_limit_exceeded")


def test_a_cut_connection_ends_in_the_middle_of_the_answer(url):
    with pytest.raises(IncompleteRead):
        complete(url, model="sim-judge+cut")


def test_faults_spoil_the_text_of_a_reply(url):
    texts = {
        fault: complete(url, "ping", model=f"sim-judge+{fault}")[2]["choices"][0]["message"]["content"]
        for fault in ("broken-json", "wrong-schema", "refusal")
    }
    assert texts["broken-json"] == "ping sim"
    assert set(json.loads(texts["wrong-schema"])) == {"result"}
    assert texts["refusal"].startswith("I'm sorry")


def test_faults_of_the_whole_server_strike_every_model():
    with run_in_background(make_app([], faults=["500"])) as url:
        assert {complete(url, model=model)[0] for model in MODELS} == {500}


def statuses_and_texts(seed):
    """Statuses and texts of one server for forty requests, half of them repetitions."""
    with run_in_background(make_app([Echo("ping")], seed=seed, faults=["429@0.3"])) as url:
        answers = [complete(url, f"ping {n % 20}", model="sim-judge+500@0.3+refusal@0.3") for n in range(40)]
    texts = [body["choices"][0]["message"]["content"] if status == 200 else "" for status, _, body in answers]
    return [status for status, _, _ in answers], texts


def test_a_repeated_request_is_answered_anew_as_often_as_the_server_varies():
    """First answers are the same with any share; which later ones differ follows from the seed."""
    seeds = {}
    for share in (0.0, 0.5, 1.0):
        with run_in_background(make_app([Echo("ping")], vary=share)) as url:
            bodies = [complete(url, "ping", model="sim-judge")[2] for _ in range(20)]
        seeds[share] = [int(body["choices"][0]["message"]["content"].split()[-1]) for body in bodies]
    assert seeds[0.0] == [0] * 20
    assert seeds[1.0] == list(range(20))
    assert seeds[0.5][0] == 0
    assert {0} < set(seeds[0.5]) < set(range(20))


def test_servers_behave_alike_with_the_same_seed_and_differ_with_another():
    statuses, texts = statuses_and_texts(1)
    assert statuses_and_texts(1) == (statuses, texts)
    assert statuses_and_texts(2)[0] != statuses
    assert set(statuses) == {200, 429, 500}
    assert statuses[:20] != statuses[20:]  # so that a retry can succeed


def test_a_fault_strikes_its_share_of_requests():
    strikes = Counter(
        draw_fault([Fault(FaultKind.SERVER_ERROR, 0.2)], seed=0, body_hash=str(number), seen=0)
        for number in range(5000)
    )
    assert 900 < strikes[FaultKind.SERVER_ERROR] < 1100


def test_a_fault_of_share_one_always_strikes_and_of_share_zero_never():
    assert all(draw_fault([Fault(FaultKind.CUT)], seed=0, body_hash="x", seen=n) is FaultKind.CUT for n in range(100))
    assert not any(draw_fault([Fault(FaultKind.CUT, 0.0)], seed=0, body_hash="x", seen=n) for n in range(100))


def test_chance_depends_on_every_part_and_on_where_parts_end():
    assert chance(1, "a", "b") == chance(1, "a", "b")
    assert len({chance(1, "a", "b"), chance(2, "a", "b"), chance(1, "ab"), chance(1, "b", "a")}) == 4
    assert 0 <= chance(0, "\ud800") < 1


def test_faults_are_read_from_names():
    assert parse_fault("timeout") == Fault(FaultKind.TIMEOUT, 1.0)
    assert parse_model("sim-judge+500@0.2+cut@0.1") == (
        "sim-judge",
        (Fault(FaultKind.SERVER_ERROR, 0.2), Fault(FaultKind.CUT, 0.1)),
    )


@pytest.mark.parametrize("text", ["", "teapot", "500@", "500@x", "500@1.1", "500@-1", "500@nan"])
def test_an_invalid_fault_is_refused_with_a_message(text):
    with pytest.raises(ValueError, match=r"There is no fault|The share of a fault"):
        make_app([], faults=[text])


# The server process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_simulator_serves_until_it_is_told_to_stop(number):
    program = """
        from generation.llm.simulator.server import make_app, serve
        serve(make_app([]), "127.0.0.1", 0, lambda url: print(url, flush=True))
        print("stopped")
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert complete(url)[0] == 200
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "stopped\n", "")


def test_a_port_in_use_is_reported_in_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"Port {port} on 127.0.0.1 is already in use; choose another port."):
            serve(make_app([]), "127.0.0.1", port, lambda url: None)


def test_an_address_of_another_machine_is_reported_in_one_sentence():
    with pytest.raises(CannotListen, match=r"Cannot listen on 192\.0\.2\.1"):
        serve(make_app([]), "192.0.2.1", 0, lambda url: None)
