"""Simulated models that sometimes answer nothing, and a release with controls to ask them about."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest

from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from mhb_site.benchmarks.mhb import simulate
from tests.engine import SEED


class SometimesSilent:
    """The simulated models, except that `sim-reckless` answers some questions with nothing."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        if model == "sim-reckless" and sha256(messages[-1].text.encode()).digest()[0] % 3 == 0:
            return ""
        return simulate.SCRIPT.reply(model, messages, seed)


@pytest.fixture(scope="module")
def silent_models() -> Iterator[str]:
    """Base URL of these models."""
    with run_in_background(make_app([SometimesSilent()], seed=SEED, faults=(), retry_after=0.001)) as url:
        yield url
