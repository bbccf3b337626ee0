"""What a simulated model says. A benchmark scripts its own models; the server asks each script in turn."""

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
        """The answer of `model` (without fault suffixes), the same for the same arguments; None: not my request."""
        ...


def chance(seed: int, *parts: str) -> float:
    """A number in [0, 1) that is a function of its arguments: the dice of scripts and faults."""
    digest = hashlib.sha256("\x1f".join([str(seed), *parts]).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
