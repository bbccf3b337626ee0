"""Simulated models that sometimes answer nothing, and sometimes think aloud."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest

from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from mhb_site.benchmarks.mhb import simulate
from tests.engine import SEED


class SometimesSilent:
    """The simulated models, except that `sim-reckless` answers some questions with nothing.

    It begins others with its thoughts, and ends some within them.
    """

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        reply = simulate.SCRIPT.reply(model, messages, seed)
        if model != "sim-reckless":
            return reply
        moods = ["", reply, f"<think>The user asks.</think>\n\n{reply}", "<think>The user asks, and"]
        return moods[sha256(messages[-1].text.encode()).digest()[0] % len(moods)]


@pytest.fixture(scope="module")
def silent_models() -> Iterator[str]:
    """Base URL of these models."""
    with run_in_background(make_app([SometimesSilent()], seed=SEED, faults=(), retry_after=0.001)) as url:
        yield url
