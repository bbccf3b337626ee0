"""Pairs of statements before they are written, and the draws that make them."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pair:
    """The parts from which a factual and a non-factual statement are written.

    `out` is the reason why no pair can be made, a code of `pair_steps.REASONS`. `field` is the key
    of the record's content that holds the context; without it, `context` is the context. `right`
    and `wrong` are the two options, values or sentences. For summaries, `right` is the sentence to
    alter, at `start` of the text `summary`.
    """

    task: str
    place: str = "0"
    out: str = ""
    field: str = ""
    context: str = ""
    question: str = ""
    right: str = ""
    wrong: str = ""
    option: str = ""
    category: str = ""
    concept: str = ""
    reference: str = ""
    summary: str = ""
    start: int = 0
    source_explanation: str = ""

    def as_data(self) -> dict[str, Any]:
        """The data stored with a draft, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Pair":
        """The pair stored in a draft's data."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})


def draw_index(count: int, seed: int, *parts: str) -> int:
    """An integer from 0 to `count` - 1, drawn by the seed and `parts`: the same on every machine."""
    text = "\x1f".join((str(seed), *parts))
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8]) % count
