"""Scripts of simulated models. Each benchmark scripts its own; the server asks them in turn."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

from generation.llm.types import Message

DEFAULT_ANSWER = (
    "I do not have enough information to answer this reliably. Please consult the patient's record and a clinician."
)


class Script(Protocol):
    """The behaviour of the simulated models in one benchmark."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        """The answer of `model` (without fault suffixes), or None for a request of another script.

        The same arguments give the same answer.
        """
        ...


def chance(seed: int, *parts: str) -> float:
    """A deterministic pseudo-random number in [0, 1) for scripts and faults."""
    digest = hashlib.sha256("\x1f".join([str(seed), *parts]).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
