"""What a page shows of the answer form: its controls and rows, with what each holds and what is wrong with it."""

from dataclasses import dataclass

from review.answers.question_display import USUAL, Asked
from review.rules.blocks import Highlight
from review.rules.diffing import Span


@dataclass(frozen=True, slots=True)
class Option:
    """One radio button or box."""

    id: str
    value: str
    label: str
    chosen: bool
    wording: tuple[Span, ...] = ()  # of an offer: what it changes in the original
    reducible: bool | None = None  # of a reason: whether a new version can mend it
    about: str = ""  # what the label means, at length
    wants: str = ""  # what is required with this answer: a note, a wording, evidence


@dataclass(frozen=True, slots=True)
class Control:
    """One field of the form: a text field, or with `options` a group of them. `focus`: the first that has a problem."""

    name: str
    id: str
    value: str
    options: tuple[Option, ...] = ()
    error: str = ""
    focus: bool = False

    @property
    def target(self) -> str:
        """The id that an error summary leads to."""
        return self.options[0].id if self.options else self.id

    @property
    def answered(self) -> bool:
        """Whether one of the options is chosen."""
        return any(option.chosen for option in self.options)


@dataclass(frozen=True, slots=True)
class Row:
    """A question (as `asked` says) or a rubric with its controls. `diff`: the corrected wording against the original.

    given: answered before the traps were revealed, to be read and not changed. asks: the question in words, under a
    title that names the criterion.
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
    given: bool = False
    asks: str = ""
    asked: Asked = USUAL

    @property
    def controls(self) -> tuple[Control, ...]:
        """All of the row's fields, in the order of the page."""
        return tuple(each for each in (self.choice, self.wording, self.note, self.severity) if each is not None)

    @property
    def missing(self) -> bool:
        return any(control.error for control in self.controls)


@dataclass(frozen=True, slots=True)
class HarmRow:
    """The harm of one trap, which counts for its rubrics. `rubrics`: the names of their fields. by_ahrq: the levels mean what
    the AHRQ scale says."""

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

    @property
    def controls(self) -> tuple[Control, ...]:
        return (self.reference, self.passage, self.kind, self.read_on, self.section)


@dataclass(frozen=True, slots=True)
class Correction:
    """What was changed in the wording of the rubric with this number; nothing: not corrected."""

    number: int
    diff: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class AddedRow:
    """One rubric of the physician's own. `tags` are boxes, `severity` is None where it is not asked."""

    number: int
    criterion: Control
    tags: Control
    severity: Control | None

    @property
    def controls(self) -> tuple[Control, ...]:
        return tuple(each for each in (self.criterion, self.tags, self.severity) if each is not None)


@dataclass(frozen=True, slots=True)
class HighlightRow:
    """Words of the text under a label. `value`: with their place; what was highlighted at the first look is only read."""

    number: int
    label: Control
    quote: Control
    value: Highlight

    @property
    def controls(self) -> tuple[Control, ...]:
        return (self.quote, self.label)

    @property
    def name(self) -> str:
        """The label in words."""
        return next((option.label for option in self.label.options if option.chosen), "")


@dataclass(frozen=True, slots=True)
class FormProblem:
    """A line of the error summary."""

    target: str
    label: str
    sentence: str


@dataclass(frozen=True, slots=True)
class FilledForm:
    """The whole form as a page shows it. A blank row of each kind lets a script add one without asking.

    `dissent_code` has options only where the primary's rejection is before the physician's eyes, `declaration` in the last word
    of the secondary.
    """

    questions: tuple[Row, ...]
    rubrics: tuple[Row, ...]
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
    fitting: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]  # (kinds of source that show them, names of traps)
    faults: tuple[FormProblem, ...]

    @property
    def cites(self) -> bool:
        """Whether any source says anything."""
        return any(row.reference.value or row.passage.value for row in self.citations)
