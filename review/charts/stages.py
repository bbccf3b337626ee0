"""A flow diagram of stages, after CONSORT: boxes in a column, and beside each what left there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageBox:
    """A stage: how many arrived, `gained` on the way to it, and `lost` before the next one."""

    label: str
    count: int
    gained: tuple[tuple[str, int], ...] = ()
    lost: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StageChart:
    """The boxes of a flow diagram, from above."""

    name: str
    title: str
    boxes: tuple[StageBox, ...]
