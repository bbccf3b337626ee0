"""Faults on demand, requested by a suffix of the model's name or for a whole server."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from generation.llm.simulator.script import chance


class FaultKind(StrEnum):
    """Kinds of faults. The first four break the HTTP exchange, the others only the reply."""

    RATE_LIMITED = "429"  # with Retry-After
    SERVER_ERROR = "500"
    TIMEOUT = "timeout"  # no answer until the client gives up
    CUT = "cut"  # the connection closes in the middle of the answer
    BROKEN_JSON = "broken-json"  # the text ends half way
    WRONG_SCHEMA = "wrong-schema"  # valid JSON of another shape
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault and the share of requests, in [0, 1], that it affects."""

    kind: FaultKind
    share: float = 1.0


def parse_fault(text: str) -> Fault:
    """Parse ``kind`` or ``kind@share``. Raises ValueError with a sentence for anything else."""
    name, at, share_text = text.partition("@")
    try:
        kind = FaultKind(name)
    except ValueError:
        raise ValueError(f"There is no fault '{name}'; known are {', '.join(FaultKind)}.") from None
    try:
        share = 1.0
        if at:
            share = float(share_text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"The share of a fault is a number from 0 to 1, not '{share_text}'.")
    return Fault(kind, share)


def parse_model(name: str) -> tuple[str, tuple[Fault, ...]]:
    """Split ``sim-judge+500@0.2+cut@0.1`` into the model and its faults.

    Raises ValueError as `parse_fault` does.
    """
    model, *suffixes = name.split("+")
    return model, tuple(parse_fault(suffix) for suffix in suffixes)


def draw_fault(faults: Sequence[Fault], *, seed: int, body_hash: str, seen: int) -> FaultKind | None:
    """Return the first fault that affects this request, if any.

    A pure function of its arguments. `seen` is how often this body was received before, so that a
    retry can succeed; two servers with the same seed fail in the same way.
    """
    for fault in faults:
        if chance(seed, fault.kind, body_hash, str(seen)) < fault.share:
            return fault.kind
    return None
