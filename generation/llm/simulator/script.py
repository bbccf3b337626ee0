"""Scripts of simulated models. Each benchmark scripts its own; the server asks them in turn."""

import hashlib
import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from generation.llm.fencing import read_data
from generation.llm.types import Message

T = TypeVar("T")

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


@dataclass(frozen=True)
class Asked:
    """A request to a simulated model. `turn`: the last user turn with data; `data`: its blocks."""

    model: str
    messages: Sequence[Message]
    seed: int

    @cached_property
    def turn(self) -> Message:
        # A prompt's examples come before its own data, and requests for another reply after it.
        turns = [message for message in self.messages if message.role == "user"]
        for turn in reversed(turns):
            if read_data(turn.text):
                return turn
        return (turns or self.messages)[0]

    @cached_property
    def data(self) -> dict[str, Any]:
        return read_data(self.turn.text)


@dataclass(frozen=True)
class PromptTable:
    """A script as a table: the first line of a prompt, which models answer it, and how.

    An answer that is no text is given as JSON.
    """

    answers: Mapping[str, tuple[Container[str], Callable[[Asked], object]]]

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        models, answer = self.answers.get(messages[0].text.partition("\n")[0], ((), None))
        if answer is None or model not in models:
            return None
        text = answer(Asked(model, messages, seed))
        if isinstance(text, str):
            return text
        return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True)
class Scripts:
    """Several scripts as one: the first that answers a request."""

    scripts: Sequence[Script]

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        for script in self.scripts:
            reply = script.reply(model, messages, seed)
            if reply is not None:
                return reply
        return None


def digest_of(*texts: str) -> str:
    """The SHA-256 of texts, as hexadecimal digits."""
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def chance(seed: int, *parts: str) -> float:
    """A deterministic pseudo-random number in [0, 1) for scripts and faults."""
    return int(digest_of(str(seed), *parts)[:12], 16) / 2**48


def pick(choices: Sequence[T], seed: int, *parts: str) -> T:
    """One of several choices, drawn by `chance`."""
    return choices[int(chance(seed, *parts) * len(choices))]
