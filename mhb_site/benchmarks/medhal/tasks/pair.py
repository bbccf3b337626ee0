"""A pair of statements in the making."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pair:
    """What becomes a factual statement and one that is not. `out`: why nothing comes of it, a code of `making.REASONS`.

    `field`: the key of the record's content that is the context; else `context` is. `right` and `wrong`: the two options,
    values or sentences; of summaries `right` is the sentence to be altered, at `start` of the text `summary`.
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
        """As it is stored with a draft: without what is empty."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Pair":
        """The pair that a draft's data has."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})
