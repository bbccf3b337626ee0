"""Why a probe has no number."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NoNumber:
    """A code of `labels.SENTENCES` with the numbers in its sentence."""

    code: str
    values: Mapping[str, int] = field(default_factory=dict)
