"""Passages of a case that a comment can point at."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from review.rules.blocks import Dialogue, Diff, Text, Turn
from review.rules.case_spec import CaseSpec


@dataclass(frozen=True, slots=True)
class Passage:
    """A running text of a case: what a comment can point at. `source`: as it was before it was changed."""

    block: int
    turn: int
    text: str
    source: bool = False

    @property
    def key(self) -> str:
        """Its name on the page (`data-passage`), counted from 1."""
        return f"{self.block + 1}.{self.turn + 1}{'.source' if self.source else ''}"


def passages(spec: CaseSpec) -> Iterator[Passage]:
    """The running texts of what is shown of a case; a changed text as it is shown comes before its source."""
    for number, block in enumerate(spec.blocks):
        match block:
            case Text():
                yield Passage(number, 0, block.text)
            case Dialogue(turns=turns):
                yield from _turns(number, turns)
            case Diff():
                yield from _turns(number, block.after)
                yield from _turns(number, block.before, source=True)


def _turns(block: int, turns: Iterable[Turn], *, source: bool = False) -> Iterator[Passage]:
    return (Passage(block, number, turn.text, source) for number, turn in enumerate(turns))
