"""Vectors: what is sent, what comes back, and what is refused; nucleus sampling as far as it is sent."""

import json
import math
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from generation.llm.errors import BrokenReply, EndpointDown, ServerError
from generation.llm.ledger_interface import Ledger as Book
from generation.llm.ledger_interface import PaidReply
from generation.llm.parsing import format_vectors, parse_vectors
from generation.llm.request_body import build_body, estimate, identity
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Attempt, Message, Reply, Request, Texts
from tests.generation.llm.helpers import HELLO, Ledger, in_gateway, settings_for
from tests.generation.llm.test_simulator import fetch

TWO = ("a fever", "a cough")


def embedded(*vectors, **more):
    entries = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "model": "e-1", "data": entries, "usage": {"prompt_tokens": 5, "total_tokens": 5}, **more}


@contextmanager
def answering(answer, seen=None):
    async def handler(request):
        if seen is not None:
            seen.append(await request.json())
        return web.Response(
            text=answer if isinstance(answer, str) else json.dumps(answer), content_type="application/json"
        )

    app = web.Application()
    app.router.add_post("/v1/embeddings", handler)
    with run_in_background(app) as url:
        yield url


def embed(url, texts=TWO, ledger=None, model="e", **options):
    own = {name: options.pop(name) for name in ("price_in",) if name in options}
    return in_gateway(lambda gateway: gateway.embed(settings_for(url, model, **own), texts), ledger, **options)


def test_one_vector_a_text_in_their_order():
    seen: list[Any] = []
    ledger = Ledger()
    with answering(embedded([0.5, -1, 0.25], [1, 0, 0]), seen) as url:
        vectors = embed(url, ledger=ledger, price_in=Decimal(2))
    assert vectors == ((0.5, -1.0, 0.25), (1.0, 0.0, 0.0))
    assert seen == [{"model": "e", "input": list(TWO), "encoding_format": "float"}]
    [attempt] = ledger
    assert (attempt.request.prompt, attempt.error, attempt.http_status) == ("embeddings", "", 200)
    assert attempt.reply is not None
    assert attempt.reply.usage.tokens_in == 5
    assert attempt.reply.usage.cost(attempt.settings) == Decimal(10) / 1_000_000
    assert attempt.reply.model == "e-1"


def test_their_numbers_say_which_text_they_are_of():
    answer = embedded([1, 0], [0, 1])
    answer["data"].reverse()
    with answering(answer) as url:
        assert embed(url) == ((1.0, 0.0), (0.0, 1.0))


def test_no_text_no_call():
    ledger = Ledger()
    assert embed("http://127.0.0.1:9/v1", (), ledger) == ()
    assert not ledger


BROKEN = {
    "one too few": embedded([1, 0]),
    "one too many": embedded([1, 0], [0, 1], [1, 1]),
    "two lengths": embedded([1, 0], [1]),
    "no length": embedded([], []),
    "not finite": embedded([1, 0], [1, math.nan]),
    "infinite": embedded([1, 0], [1, math.inf]),
    "beyond 32 bits": embedded([1, 0], [1, 1e300]),
    "far beyond": embedded([1, 0], [1, 10**400]),
    "text": embedded([1, 0], [1, "0"]),
    "a boolean": embedded([1, 0], [1, True]),
    "base64": embedded("AACAPwAAgD8=", "AACAPwAAgD8="),
    "none": embedded([1, 0], None),
    "the same number twice": {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]},
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_vectors_that_cannot_be_used_are_refused_and_billed(answer):
    ledger = Ledger()
    with answering(answer) as url, pytest.raises(BrokenReply):
        embed(url, ledger=ledger)
    assert [attempt.error for attempt in ledger] == ["BrokenReply"] * 2, "it was asked for once more"
    billed = answer.get("usage", {}).get("prompt_tokens", 0)
    assert [attempt.reply and attempt.reply.usage.tokens_in for attempt in ledger] == [billed] * 2


@pytest.mark.parametrize(
    "answer", ["no JSON", "[]", '{"data": 3}', '{"data": [1, 2]}', '{"data": [{"index": []}, {}]}']
)
def test_what_is_no_answer_of_the_protocol(answer):
    ledger = Ledger()
    with answering(answer) as url, pytest.raises(ServerError, match="No embeddings"):
        embed(url, ledger=ledger, attempts=2)
    assert [attempt.error for attempt in ledger] == ["ServerError"] * 2


def test_an_endpoint_without_embeddings():
    with run_in_background(web.Application()) as url, pytest.raises(EndpointDown, match="NotThere"):
        embed(url)


def test_vectors_as_text_and_back():
    vectors = ((0.1, -2.5), (3.0, 0.0))
    text = format_vectors(vectors)
    assert parse_vectors(text, 2) == tuple(tuple(pytest.approx(value, rel=1e-7) for value in vector) for vector in vectors)
    assert format_vectors(parse_vectors(text, 2)) == text, "once rounded to 32 bits, they stay what they are"
    for wrong, count in ((text, 3), ("[]", 1), ("hello", 1), ('["!"]', 1), ('["AAA="]', 1), ("[3]", 1), ('[""]', 1)):
        with pytest.raises(BrokenReply):
            parse_vectors(wrong, count)


def test_a_hit_gives_back_what_was_paid_for_and_a_broken_one_is_asked_anew():
    lines: list[Attempt] = []
    kept = format_vectors([(1.0, 0.0), (0.0, 1.0)])

    async def write(attempt):
        lines.append(attempt)

    def book(text, settings):
        async def find(name):
            assert name == identity(settings, Texts(TWO))
            return [PaidReply(7, Reply(text))]

        return Book(write, find=find)

    async def twice(gateway):
        settings = settings_for(there, "e")
        return [await gateway.embed(settings, TWO, ledger=book(text, settings)) for text in (kept, "not vectors")]

    with answering(embedded([0.5, 0.5], [0.5, 0.5])) as there:
        hit, asked = in_gateway(twice)
    assert hit == ((1.0, 0.0), (0.0, 1.0))
    assert asked == ((0.5, 0.5), (0.5, 0.5))
    assert [(line.number, line.hit_of) for line in lines] == [(0, 7), (1, None)]


def test_vectors_have_an_identity_of_their_own():
    settings = settings_for("http://a/v1")
    names = {
        identity(settings, Texts(TWO)),
        identity(settings, Texts(TWO[::-1])),
        identity(settings, Texts((" ".join(TWO),))),
        identity(settings_for("http://a/v1", "other"), Texts(TWO)),
        identity(settings, Request((Message("user", TWO[0]),))),
    }
    assert len(names) == 5
    assert estimate(settings, Texts(("x" * 400,))).tokens_in == 100


# ------------------------------------------------------------------------------------------------- nucleus sampling


def test_top_p_is_sent_and_tells_questions_apart():
    settings, plain = settings_for("http://a/v1"), HELLO
    some = Request(HELLO.messages, prompt=HELLO.prompt, top_p=0.95)
    assert "top_p" not in build_body(settings, plain)
    assert build_body(settings, some)["top_p"] == 0.95
    assert identity(settings, some) != identity(settings, plain)


def test_without_it_identities_are_what_they_were():
    """Of a ledger from before there was such a setting: its replies are found again."""
    settings = settings_for("http://a/v1", "m")
    before = "6e9d20e31a1b991afc9c160904a951a9ef14f92607900af21362cebfeef87981"
    assert identity(settings, Request((Message("user", "Is it safe?"),))) == before


# ------------------------------------------------------------------------------------------------------ the simulator


@pytest.fixture(scope="module")
def url():
    with run_in_background(make_app([], seed=5)) as url:
        yield url


def near(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_like_texts_are_near(url):
    texts = ("The drug lowers blood pressure.", "the DRUG lowers the blood pressure", "A cat sat on a mat")
    one, two, three = embed(url, texts, model="sim-embedder")
    assert near(one, one) == pytest.approx(1.0, abs=1e-6)
    assert near(one, two) > 0.8
    assert abs(near(one, three)) < 0.5
    assert embed(url, texts, model="sim-embedder") == (one, two, three), "the same every time"


def test_the_simulated_protocol(url):
    status, _, answer = fetch(f"{url}/embeddings", {"model": "sim-embedder", "input": "one text"})
    assert status == 200
    assert [entry["index"] for entry in answer["data"]] == [0]
    assert answer["system_fingerprint"] == "mhb-simulator"
    assert answer["usage"]["prompt_tokens"] == 2
    refused: list[dict[str, Any]] = [{"input": ["x"], "encoding_format": "base64"}]
    for wrong in (*refused, {}, {"input": []}, {"input": [""]}, {"input": 3}):
        status, _, answer = fetch(f"{url}/embeddings", {"model": "sim-embedder", **wrong})
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    status, _, answer = fetch(f"{url}/embeddings", {"model": "nobody", "input": "x"})
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


def test_words_that_cannot_be_encoded_and_none_at_all(url):
    assert {len(vector) for vector in embed(url, ("\ud800 half", "...", "热 烧"), model="sim-embedder")} == {48}
