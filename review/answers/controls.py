"""The controls and rows of the answer form, with values and errors, for the templates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from review.rules.blocks import Block, Highlight
from review.rules.diffing import Span
from review.rules.questions import Question


class Option(NamedTuple):
    """One radio button or checkbox. Its control sets `id` and `chosen`."""

    value: str
    label: str
    id: str = ""
    chosen: bool = False
    wording: tuple[Span, ...] = ()  # of an offered wording: its differences from the original
    reducible: bool | None = None  # of a reason: whether a new version can fix it
    about: str = ""  # explanation of the label
    requires: str = ""  # what this answer requires: note, wording, evidence
    blocks: bool = False  # whether the case cannot be approved with it
    level: str = ""  # of a kind of source: the level of evidence that follows from it


class Control(NamedTuple):
    """One field of the form: a text field, or a group of `options`.

    `focus` is set on the first field that has a problem.
    """

    name: str
    id: str
    value: str
    options: tuple[Option, ...] = ()
    error: str = ""
    focus: bool = False

    @property
    def target(self) -> str:
        """The id that the error summary links to."""
        if self.options:
            return self.options[0].id
        return self.id

    @property
    def blocking(self) -> list[str]:
        """The labels of the options that rule out approval."""
        return [option.label for option in self.options if option.blocks]

    @property
    def answered(self) -> bool:
        """Whether one of the options is chosen."""
        return any(option.chosen for option in self.options)


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A question, or a rubric with its controls (`question` is None).

    Attributes:
        heading: the title, of a question that is always asked with its place among these; of a
            rubric, its number.
        diff: the corrected wording compared with the original.
        committed: answered before the traps were revealed, hence read-only.
        asks: the question in words; the title names the criterion.
        about: the rubric or trap that the question is about.
        kinds: labels of the kinds of source that its answers accept.
        when: field and value on which the row depends; `condition` says it in words.
        sources: whether sources are entered with this question.
        blocks: the blocks of the case that are shown with it, each with its number.
    """

    number: int
    title: str
    choice: Control
    note: Control
    when: tuple[str, ...]
    condition: str
    heading: str = ""
    question: Question | None = None
    help: str = ""
    asks: str = ""
    about: str = ""
    kinds: tuple[str, ...] = ()
    sources: bool = False
    blocks: tuple[tuple[int, Block], ...] = ()
    committed: bool = False
    tags: tuple[str, ...] = ()
    wording: Control | None = None
    severity: Control | None = None
    diff: tuple[Span, ...] = ()

    @property
    def controls(self) -> tuple[Control, ...]:
        """All fields of the row, in the order of the page."""
        return tuple(each for each in (self.choice, self.wording, self.note, self.severity) if each is not None)

    @property
    def offers(self) -> list[Option]:
        """The options that offer a wording of somebody else."""
        return [option for option in self.choice.options if option.wording]

    @property
    def several(self) -> bool:
        """Whether several choices may be chosen."""
        return self.question is not None and self.question.kind == "choices"

    @property
    def has_error(self) -> bool:
        return any(control.error for control in self.controls)


@dataclass(frozen=True, slots=True)
class HarmRow:
    """The level of harm of one trap, which applies to its rubrics.

    Attributes:
        rubrics: the names of the rubrics' fields.
        by_ahrq: whether all levels have the meaning of the AHRQ scale.
    """

    tag: str
    choice: Control
    rubrics: tuple[str, ...]
    by_ahrq: bool


@dataclass(frozen=True, slots=True)
class RepeatedRow:
    """A source, a rubric of the physician's own or a highlight, which can be added and removed.

    Attributes:
        fields: its controls by name, in the order in which their problems are listed.
        highlight: holds the position of the words. Highlights of the first look are read-only.
    """

    number: int
    fields: Mapping[str, Control]
    highlight: Highlight | None = None

    def __hash__(self) -> int:
        return hash((self.number, tuple(self.fields.items()), self.highlight))


@dataclass(frozen=True, slots=True)
class Correction:
    """The corrected wording of the rubric with this number, as a diff; empty if not corrected."""

    number: int
    diff: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class FormProblem:
    """A line of the error summary."""

    target: str
    label: str
    sentence: str


@dataclass(frozen=True, slots=True)
class FilledForm:
    """The whole answer form, for the templates.

    The blank row of each kind lets a script add rows without a request.

    Attributes:
        fields: the controls below the rows, by name. `dissent_code` has options only if the
            physician sees that the primary rejected the case, `declaration` only in the
            secondary's last answer.
        accepted_evidence: pairs (kinds of source that prove a trap, names of those traps).
    """

    questions: tuple[ControlRow, ...]
    rubrics: tuple[ControlRow, ...]
    harms: tuple[HarmRow, ...]
    citations: tuple[RepeatedRow, ...]
    added: tuple[RepeatedRow, ...]
    highlights: tuple[RepeatedRow, ...]
    fields: Mapping[str, Control]
    blank_citation: RepeatedRow
    blank_added: RepeatedRow
    blank_highlight: RepeatedRow
    evidence_error: str
    accepted_evidence: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    problems: tuple[FormProblem, ...]

    @property
    def blocks_inside(self) -> frozenset[int]:
        """The numbers of the blocks that are shown with a question."""
        inside: set[int] = set()
        for row in self.questions:
            for number, _block in row.blocks:
                inside.add(number)
        return frozenset(inside)

    @property
    def has_sources(self) -> bool:
        """Whether any source has been filled in."""
        return any(row.fields["reference"].value or row.fields["passage"].value for row in self.citations)
