"""Embeddings: requests, vectors and refusals; and how nucleus sampling is sent."""

import json
import math
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from generation.llm.errors import BrokenReply, EndpointDown, ServerError
from generation.llm.ledger_interface import Ledger as LedgerHooks
from generation.llm.ledger_interface import PaidReply
from generation.llm.parsing import format_vectors, parse_vectors
from generation.llm.request_body import build_body, estimate, identity
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Attempt, Message, Reply, Request, Texts
from tests.generation.llm.helpers import HELLO, Ledger, in_gateway, settings_for
from tests.generation.llm.test_simulator import fetch

TWO = ("a fever", "a cough")


def embeddings_body(*vectors, **more):
    entries = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "model": "e-1", "data": entries, "usage": {"prompt_tokens": 5, "total_tokens": 5}, **more}


@contextmanager
def embeddings_endpoint(answer, bodies=None):
    """Run an endpoint that always gives this answer and collects its requests in `bodies`."""

    async def handler(request):
        if bodies is not None:
            bodies.append(await request.json())
        return web.Response(
            text=answer if isinstance(answer, str) else json.dumps(answer), content_type="application/json"
        )

    app = web.Application()
    app.router.add_post("/v1/embeddings", handler)
    with run_in_background(app) as url:
        yield url


def embed(url, texts=TWO, ledger=None, model="e", **options):
    settings = {name: options.pop(name) for name in ("price_in",) if name in options}
    return in_gateway(lambda gateway: gateway.embed(settings_for(url, model, **settings), texts), ledger, **options)


def test_each_text_gets_one_vector_in_order():
    bodies: list[Any] = []
    ledger = Ledger()
    with embeddings_endpoint(embeddings_body([0.5, -1, 0.25], [1, 0, 0]), bodies) as url:
        vectors = embed(url, ledger=ledger, price_in=Decimal(2))
    assert vectors == ((0.5, -1.0, 0.25), (1.0, 0.0, 0.0))
    assert bodies == [{"model": "e", "input": list(TWO), "encoding_format": "float"}]
    [attempt] = ledger
    assert (attempt.request.prompt, attempt.error, attempt.http_status) == ("embeddings", "", 200)
    assert attempt.reply is not None
    assert attempt.reply.usage.tokens_in == 5
    assert attempt.reply.usage.cost(attempt.settings) == Decimal(10) / 1_000_000
    assert attempt.reply.model == "e-1"


def test_vectors_are_assigned_to_texts_by_their_index():
    answer = embeddings_body([1, 0], [0, 1])
    answer["data"].reverse()
    with embeddings_endpoint(answer) as url:
        assert embed(url) == ((1.0, 0.0), (0.0, 1.0))


def test_without_texts_no_call_is_made():
    ledger = Ledger()
    assert embed("http://127.0.0.1:9/v1", (), ledger) == ()
    assert not ledger


BROKEN = {
    "one too few": embeddings_body([1, 0]),
    "one too many": embeddings_body([1, 0], [0, 1], [1, 1]),
    "two lengths": embeddings_body([1, 0], [1]),
    "no length": embeddings_body([], []),
    "not finite": embeddings_body([1, 0], [1, math.nan]),
    "infinite": embeddings_body([1, 0], [1, math.inf]),
    "beyond 32 bits": embeddings_body([1, 0], [1, 1e300]),
    "far beyond": embeddings_body([1, 0], [1, 10**400]),
    "text": embeddings_body([1, 0], [1, "0"]),
    "a boolean": embeddings_body([1, 0], [1, True]),
    "base64": embeddings_body("AACAPwAAgD8=", "AACAPwAAgD8="),
    "none": embeddings_body([1, 0], None),
    "the same number twice": {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]},
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_vectors_that_cannot_be_used_are_refused_and_billed(answer):
    ledger = Ledger()
    with embeddings_endpoint(answer) as url, pytest.raises(BrokenReply):
        embed(url, ledger=ledger)
    assert [attempt.error for attempt in ledger] == ["BrokenReply"] * 2, "the request is sent once more"
    billed = answer.get("usage", {}).get("prompt_tokens", 0)
    assert [attempt.reply and attempt.reply.usage.tokens_in for attempt in ledger] == [billed] * 2


@pytest.mark.parametrize(
    "answer", ["no JSON", "[]", '{"data": 3}', '{"data": [1, 2]}', '{"data": [{"index": []}, {}]}']
)
def test_a_body_without_embeddings_is_a_server_error(answer):
    ledger = Ledger()
    with embeddings_endpoint(answer) as url, pytest.raises(ServerError, match="No embeddings"):
        embed(url, ledger=ledger, attempts=2)
    assert [attempt.error for attempt in ledger] == ["ServerError"] * 2


def test_an_endpoint_without_embeddings_is_down():
    with run_in_background(web.Application()) as url, pytest.raises(EndpointDown, match="does not know"):
        embed(url)


def test_vectors_survive_being_stored_as_text():
    vectors = ((0.1, -2.5), (3.0, 0.0))
    text = format_vectors(vectors)
    assert parse_vectors(text, 2) == tuple(
        tuple(pytest.approx(value, rel=1e-7) for value in vector) for vector in vectors
    )
    assert format_vectors(parse_vectors(text, 2)) == text, "values that are rounded to 32 bits stay the same"
    for wrong, count in ((text, 3), ("[]", 1), ("hello", 1), ('["!"]', 1), ('["AAA="]', 1), ("[3]", 1), ('[""]', 1)):
        with pytest.raises(BrokenReply):
            parse_vectors(wrong, count)


def test_a_paid_reply_is_reused_and_a_broken_one_is_requested_again():
    lines: list[Attempt] = []
    paid_text = format_vectors([(1.0, 0.0), (0.0, 1.0)])

    async def write(attempt):
        lines.append(attempt)

    def hooks_for(text, settings):
        async def find(name):
            assert name == identity(settings, Texts(TWO))
            return [PaidReply(7, Reply(text))]

        return LedgerHooks(write, find=find)

    async def twice(gateway):
        settings = settings_for(base_url, "e")
        return [
            await gateway.embed(settings, TWO, ledger=hooks_for(text, settings)) for text in (paid_text, "not vectors")
        ]

    with embeddings_endpoint(embeddings_body([0.5, 0.5], [0.5, 0.5])) as base_url:
        hit, requested = in_gateway(twice)
    assert hit == ((1.0, 0.0), (0.0, 1.0))
    assert requested == ((0.5, 0.5), (0.5, 0.5))
    assert [(line.number, line.hit_of) for line in lines] == [(0, 7), (1, None)]


def test_the_identity_depends_on_the_texts_their_order_and_the_model():
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


# --------------------------------------------------------------------------------- nucleus sampling


def test_top_p_is_sent_and_part_of_the_identity():
    settings, plain = settings_for("http://a/v1"), HELLO
    nucleus = Request(HELLO.messages, prompt=HELLO.prompt, top_p=0.95)
    assert "top_p" not in build_body(settings, plain)
    assert build_body(settings, nucleus)["top_p"] == 0.95
    assert identity(settings, nucleus) != identity(settings, plain)


def test_the_identity_of_a_request_without_top_p_has_not_changed():
    """Replies in a ledger from before this setting existed are still found."""
    settings = settings_for("http://a/v1", "m")
    before = "6e9d20e31a1b991afc9c160904a951a9ef14f92607900af21362cebfeef87981"
    assert identity(settings, Request((Message("user", "Is it safe?"),))) == before


# ------------------------------------------------------------------------------------ the simulator


@pytest.fixture(scope="module")
def url():
    with run_in_background(make_app([], seed=5)) as url:
        yield url


def dot_product(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_similar_texts_have_near_vectors(url):
    texts = ("The drug lowers blood pressure.", "the DRUG lowers the blood pressure", "A cat sat on a mat")
    first, similar, different = embed(url, texts, model="sim-embedder")
    assert dot_product(first, first) == pytest.approx(1.0, abs=1e-6)
    assert dot_product(first, similar) > 0.8
    assert abs(dot_product(first, different)) < 0.5
    assert embed(url, texts, model="sim-embedder") == (first, similar, different), "the same vectors every time"


def test_the_simulator_follows_the_embeddings_protocol(url):
    status, _, answer = fetch(f"{url}/embeddings", {"model": "sim-embedder", "input": "one text"})
    assert status == 200
    assert [entry["index"] for entry in answer["data"]] == [0]
    assert answer["system_fingerprint"] == "mhb-simulator"
    assert answer["usage"]["prompt_tokens"] == 2
    invalid: list[dict[str, Any]] = [{}, {"input": []}, {"input": [""]}, {"input": 3}]
    for wrong in ({"input": ["x"], "encoding_format": "base64"}, *invalid):
        status, _, answer = fetch(f"{url}/embeddings", {"model": "sim-embedder", **wrong})
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    status, _, answer = fetch(f"{url}/embeddings", {"model": "nobody", "input": "x"})
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


def test_the_simulator_embeds_any_text(url):
    assert {len(vector) for vector in embed(url, ("\ud800 half", "...", "热 烧"), model="sim-embedder")} == {48}
