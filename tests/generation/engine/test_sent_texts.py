"""Requests in the ledger: their long texts are stored once, and they read as they were sent."""

from functools import partial
from random import Random
from typing import Any

import pytest
from django.db import transaction

from generation.llm.fencing import as_data
from generation.models import SentText
from generation.models.sent_texts import SHARED, read_requests, store_requests
from tests.conftest import RunConcurrently

pytestmark = [pytest.mark.django_db, pytest.mark.both]

PROMPT = "You judge answers. \n\n" * 40
SOURCE = as_data([{"role": "user", "content": 'Three "days" \\ of fever. ' * 30}])
ODD = ['"', "\\", '\\"', "\n", "\0", "{}", "null", '"content": "', "<<<SOURCE\n", "\nSOURCE>>>", "发热", "é", "\u2028"]
ODD.append("x" * SHARED)


def body(question: str) -> dict[str, Any]:
    user = f"<<<SOURCE\n{SOURCE}\nSOURCE>>>\n\n<<<QUESTION\n{as_data(question)}\nQUESTION>>>\n\nDecide."
    turns = [{"role": "system", "content": PROMPT}, {"role": "user", "content": user}]
    schema = {"type": "json_schema", "json_schema": {"properties": {f"field {n}": {"enum": [n]} for n in range(40)}}}
    return {"model": "m", "messages": turns, "temperature": 0.1, "response_format": schema}


def test_prompt_source_and_schema_of_many_requests_are_stored_once() -> None:
    bodies = [body(f"Is it {n}?") for n in range(20)]
    packed = [*store_requests(bodies[:10]), *store_requests(bodies[10:])]
    assert SentText.objects.count() == 3
    assert all(len(request) < 400 for request in packed)
    assert read_requests(packed) == bodies


def test_any_body_reads_as_it_was_sent() -> None:
    dice = Random(7)

    def content() -> str:
        return "".join(dice.choice(ODD) for _ in range(dice.randrange(12)))

    bodies: list[dict[str, Any]] = [{}, {"input": ["", "x" * SHARED]}, {"messages": []}]
    for _ in range(300):
        parts = [{"type": "text", "text": content()}, {"type": "image_url", "image_url": {"url": content()}}]
        turns = [{"role": "user", "content": content()}, {"role": "user", "content": parts}]
        bodies.append({"model": content(), "messages": turns, content(): [None, 1.5, True, content()]})
    assert read_requests(store_requests(bodies)) == bodies


def test_a_request_whose_text_was_erased_is_empty_and_the_others_stay() -> None:
    packed = store_requests([body("Is it?"), {"model": "m", "messages": []}])
    SentText.objects.all().delete()
    assert read_requests(packed) == [{}, {"model": "m", "messages": []}]


def test_writers_of_the_same_texts_do_not_stop_each_other(run_concurrently: RunConcurrently) -> None:
    texts = [f"Prompt {n}. " * 60 for n in range(20)]

    def write(seed: int) -> list[dict[str, Any]]:
        order = Random(seed).sample(texts, len(texts))
        with transaction.atomic():
            return read_requests(store_requests([{"messages": [{"content": text}]} for text in order]))

    for bodies in run_concurrently([partial(write, seed) for seed in range(4)]):
        assert len(bodies) == len(texts)
    assert SentText.objects.count() == len(texts)
