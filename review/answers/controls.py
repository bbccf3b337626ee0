"""The controls and rows of the answer form, with values and errors, for the templates."""

from dataclasses import dataclass

from review.answers.question_display import DEFAULT_DISPLAY, QuestionDisplay
from review.rules.blocks import Highlight
from review.rules.diffing import Span


@dataclass(frozen=True, slots=True)
class Option:
    """One radio button or checkbox."""

    id: str
    value: str
    label: str
    chosen: bool
    wording: tuple[Span, ...] = ()  # of an offered wording: its differences from the original
    reducible: bool | None = None  # of a reason: whether a new version can fix it
    about: str = ""  # explanation of the label
    requires: str = ""  # what this answer requires: note, wording, evidence


@dataclass(frozen=True, slots=True)
class Control:
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
        return self.options[0].id if self.options else self.id

    @property
    def answered(self) -> bool:
        """Whether one of the options is chosen."""
        return any(option.chosen for option in self.options)


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A question or a rubric with its controls.

    Attributes:
        diff: the corrected wording compared with the original.
        committed: answered before the traps were revealed, hence read-only.
        asks: the question in words; the title names the criterion.
    """

    number: int
    title: str
    help: str
    tags: tuple[str, ...]
    choice: Control
    note: Control
    wording: Control | None = None
    severity: Control | None = None
    diff: tuple[Span, ...] = ()
    committed: bool = False
    asks: str = ""
    display: QuestionDisplay = DEFAULT_DISPLAY

    @property
    def controls(self) -> tuple[Control, ...]:
        """All fields of the row, in the order of the page."""
        return tuple(each for each in (self.choice, self.wording, self.note, self.severity) if each is not None)

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
class CitationRow:
    """One source."""

    number: int
    kind: Control
    reference: Control
    section: Control
    passage: Control
    read_on: Control
    trap: Control | None = None
    level: Control | None = None

    @property
    def controls(self) -> tuple[Control, ...]:
        controls = (self.trap, self.reference, self.passage, self.kind, self.level, self.read_on, self.section)
        return tuple(control for control in controls if control is not None)


@dataclass(frozen=True, slots=True)
class Correction:
    """The corrected wording of the rubric with this number, as a diff; empty if not corrected."""

    number: int
    diff: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class AddedRow:
    """One rubric added by the physician. `tags` are checkboxes; `severity` is None if not asked."""

    number: int
    criterion: Control
    tags: Control
    severity: Control | None

    @property
    def controls(self) -> tuple[Control, ...]:
        return tuple(each for each in (self.criterion, self.tags, self.severity) if each is not None)


@dataclass(frozen=True, slots=True)
class HighlightRow:
    """Highlighted words of the text, and their label.

    `value` holds their position. Highlights of the first look are read-only.
    """

    number: int
    label: Control
    quote: Control
    value: Highlight

    @property
    def controls(self) -> tuple[Control, ...]:
        return (self.quote, self.label)

    @property
    def name(self) -> str:
        """The text of the chosen label."""
        return next((option.label for option in self.label.options if option.chosen), "")


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
        dissent_code: has options only if the physician sees that the primary rejected the case.
        declaration: has options only in the secondary's last answer.
        accepted_evidence: pairs (kinds of source that prove a trap, names of those traps).
    """

    questions: tuple[ControlRow, ...]
    rubrics: tuple[ControlRow, ...]
    harms: tuple[HarmRow, ...]
    citations: tuple[CitationRow, ...]
    added: tuple[AddedRow, ...]
    highlights: tuple[HighlightRow, ...]
    verdict: Control
    reason_code: Control
    dissent_code: Control
    reason: Control
    change_reason: Control
    declaration: Control
    agreed: Control
    blank_citation: CitationRow
    blank_added: AddedRow
    blank_highlight: HighlightRow
    evidence_error: str
    accepted_evidence: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    problems: tuple[FormProblem, ...]

    @property
    def blocks_inside(self) -> frozenset[int]:
        """The numbers of the blocks that are shown with a question."""
        return frozenset(number for row in self.questions for number, _block in row.display.blocks)

    @property
    def has_sources(self) -> bool:
        """Whether any source has been filled in."""
        return any(row.reference.value or row.passage.value for row in self.citations)
