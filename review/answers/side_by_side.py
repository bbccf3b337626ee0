"""Compare reviews side by side, format answers as text, and compare versions of a case."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from review.answers.posted_answers import ADOPT_PREFIX, Offer
from review.labels import (
    ANONYMOUS_ROLES,
    CITATION_KINDS,
    CITATION_LEVELS,
    DECLARATIONS,
    FINDINGS,
    PHASES,
    ROLES,
    VERDICTS,
    translate,
    with_label,
)
from review.models import Review, User
from review.rules.blocks import Block, Dialogue, Diff, Highlight, Text, Turn
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.citations import level_of
from review.rules.consolidation import comparable_rubrics, settled_rubrics
from review.rules.diffing import Span, TurnPair, align_turns, diff_words, turn_pair
from review.rules.questions import (
    Answer,
    Answers,
    Citation,
    Form,
    Question,
    Reason,
    RubricAnswer,
    RubricText,
    additions_decision,
    finding_decision,
    verdict_decision,
)
from review.rules.state_machine import Phase, Verdict


@dataclass(frozen=True, slots=True)
class ReviewColumn:
    """One review as a column.

    Attributes:
        who: whose it is, as this reader may know it.
        own: whether it is the reader's own.
        review: its id; 0 where nobody can sign it.
    """

    role: str
    who: str
    answers: Answers
    own: bool = False
    review: int = 0
    phase: str = ""


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One review's entry in a line. `diff`: a corrected wording compared with the original."""

    who: str
    value: str
    note: str
    diff: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """One question, one rubric or the verdict, with the entry of each review.

    Attributes:
        field: the name of its field in the answer form, if it has one.
        harm_gap: levels of harm between the lowest and the highest one chosen.
        free: the reviews need not agree on it.
    """

    title: str
    tags: tuple[str, ...]
    cells: tuple[ComparedCell, ...]
    differs: bool
    field: str = ""
    harm_gap: int = 0
    free: bool = False


@dataclass(frozen=True, slots=True)
class AnswerComparison:
    """All lines of a form, grouped by whether the reviews differ. The verdict comes first.

    `free`: lines on which the reviews need not agree.
    """

    differing: tuple[ComparedLine, ...]
    agreeing: tuple[ComparedLine, ...]
    free: tuple[ComparedLine, ...] = ()

    @property
    def verdict(self) -> ComparedLine:
        """The line of the verdict."""
        return next(line for line in (*self.differing, *self.agreeing) if line.field == "verdict")

    @property
    def unlike(self) -> tuple[ComparedLine, ...]:
        """The lines in which the reviews are not the same, whether they have to agree or not."""
        return (*self.differing, *self.free)


def anonymous_columns(reader: User, reviews: Iterable[Review]) -> list[ReviewColumn]:
    """The last review of each role, without names; the reader's own column is named "You"."""
    last = {review.role: review for review in reviews}
    columns = []
    for role, label in ANONYMOUS_ROLES.items():
        review = last.get(role)
        if review is None:
            continue
        own = review.physician_id == reader.pk
        who = str(label)
        if own:
            who = gettext("You")
        answers = answers_from_json(review.answers)
        columns.append(ReviewColumn(role, who, answers, own, review.pk, review.phase))
    return columns


@dataclass(frozen=True, slots=True)
class Proposal:
    """A review whose verdict and rubrics an adjudicator can sign word for word.

    Attributes:
        who: whose it is; several names if their verdicts and rubrics are the same.
        rubrics: the wordings that it keeps or adds, each with whether another approval lacks it.
        waits: the other adjudicator has signed or proposed it as their second vote.
    """

    review: int
    who: str
    verdict: str
    reason: str
    rubrics: tuple[tuple[str, bool], ...]
    waits: bool

    @property
    def differing(self) -> int:
        """The number of its rubrics that another approval lacks."""
        return sum(differs for _criterion, differs in self.rubrics)


def proposals(form: Form, columns: Sequence[ReviewColumn]) -> list[Proposal]:
    """The distinct proposals among the reviews, first the one that the other adjudicator made."""
    groups: dict[tuple[str, str], list[ReviewColumn]] = {}
    for column in columns:
        rubrics = ""
        if column.answers.verdict == Verdict.APPROVE:
            rubrics = comparable_rubrics(form, column.answers)
        groups.setdefault((str(verdict_decision(column.answers)), rubrics), []).append(column)
    kept: dict[tuple[str, str], list[str]] = {}
    for key, same in groups.items():
        answers = same[0].answers
        if answers.verdict == Verdict.APPROVE:
            kept[key] = [rubric.criterion for rubric in settled_rubrics(form, [answers]) if not rubric.removed]
    found = []
    for key, same in groups.items():
        rubrics_of_others = [criteria for other, criteria in kept.items() if other != key]
        found.append(_proposal(form, same, kept.get(key, []), rubrics_of_others))
    return sorted(found, key=lambda proposal: not proposal.waits)


def _proposal(
    form: Form, same: Sequence[ReviewColumn], criteria: Sequence[str], of_others: Sequence[Sequence[str]]
) -> Proposal:
    """What some reviews propose alike.

    `criteria`: of the rubrics that it keeps. `of_others`: those of the other proposals.
    """
    answers = same[0].answers
    discussed = [column for column in same if column.phase == Phase.DISCUSS]
    source = (discussed or same)[0]
    rubrics = []
    for criterion in criteria:
        differs = any(criterion not in others for others in of_others)
        rubrics.append((criterion, differs))
    return Proposal(
        review=source.review,
        who=", ".join(column.who for column in same),
        verdict=str(VERDICTS.get(answers.verdict, answers.verdict)),
        reason=_reason_text(form, answers),
        rubrics=tuple(rubrics),
        waits=any(not column.own for column in discussed),
    )


def named_columns(reviews: Iterable[Review]) -> list[ReviewColumn]:
    """Every review with role, phase and name, for those who oversee cases."""
    return [
        ReviewColumn(
            role=review.role,
            who=f"{ROLES[review.role]} · {PHASES[review.phase]} · {review.signed_as or review.physician}",
            answers=answers_from_json(review.answers),
        )
        for review in reviews
    ]


def compare(form: Form, columns: Sequence[ReviewColumn]) -> AnswerComparison:
    """Compare reviews by verdict, questions, rubrics, added rubrics, sources and highlights.

    Different values, wordings, levels of harm and reason codes count as a difference; sources,
    highlights and explanations in free text do not.
    """
    lines = [_verdict_line(form, columns)]
    for question in form.questions:
        line = _question_line(question, columns)
        if any(cell.value or cell.note for cell in line.cells):  # else nobody was asked, or answered
            lines.append(line)
    for rubric in form.rubrics:
        lines.append(_rubric_line(form, rubric, columns))
    lines += _extra_lines(form, columns)
    differing, agreeing, free = [], [], []
    for line in lines:
        if line.differs:
            differing.append(line)
        if line.free:
            free.append(line)
        if not (line.differs or line.free):
            agreeing.append(line)
    return AnswerComparison(tuple(differing), tuple(agreeing), tuple(free))


def _verdict_line(form: Form, columns: Sequence[ReviewColumn]) -> ComparedLine:
    cells, decisions = [], []
    for column in columns:
        verdict = str(VERDICTS.get(column.answers.verdict, column.answers.verdict))
        cells.append(ComparedCell(column.who, verdict, _reason_text(form, column.answers)))
        decisions.append(verdict_decision(column.answers))
    return ComparedLine(gettext("Verdict"), (), tuple(cells), _values_differ(decisions), "verdict")


def _question_line(question: Question, columns: Sequence[ReviewColumn]) -> ComparedLine:
    cells, values = [], []
    for column in columns:
        answer = column.answers.answer(question.key)
        cells.append(ComparedCell(column.who, answer_text(question, answer), answer.note))
        if answer.value:  # free text has none, nor has what a stage was not asked
            values.append(answer.value)
    differs = question.compared and _values_differ(values)
    field = f"question.{question.key}"
    return ComparedLine(question_title(question), (), tuple(cells), differs, field, free=not question.compared)


def _rubric_line(form: Form, rubric: RubricText, columns: Sequence[ReviewColumn]) -> ComparedLine:
    cells, decisions = [], []
    for column in columns:
        finding = column.answers.finding(rubric.key)
        diff: tuple[Span, ...] = ()
        if finding.value == "corrected":
            diff = diff_words(rubric.criterion, finding.wording)
        cells.append(ComparedCell(column.who, _finding_text(form, finding), finding.note, diff))
        decisions.append(finding_decision(finding))
    harm_gap = _harm_gap(form, [decision[2] for decision in decisions])
    field = f"rubric.{rubric.key}"
    return ComparedLine(rubric.criterion, rubric.tags, tuple(cells), _values_differ(decisions), field, harm_gap)


def question_title(question: Question) -> str:
    """The label of a question, and the rubric or trap that it is about."""
    if not question.about:
        return translate(question.label)
    return f"{translate(question.label)} · {subject_label(question.about)}"


def subject_label(about: str) -> str:
    """What a question is about: the key of a rubric, or the code of a trap with its name."""
    code, _space, name = about.partition(" ")
    if name:
        return f"{code} {translate(name)}"
    return code


def _values_differ(values: Iterable[object]) -> bool:
    return len(set(values)) > 1


def _harm_gap(form: Form, severities: Sequence[str]) -> int:
    """The number of levels between the lowest and the highest level of harm chosen."""
    ranks = [n for n, level in enumerate(form.severities) if level.value in severities]
    if ranks:
        return max(ranks) - min(ranks)
    return 0


def _joined(separator: str, *parts: str) -> str:
    """The parts that say anything, joined."""
    return separator.join(filter(None, parts))


def _label(options: Iterable[Reason], code: str) -> str:
    for reason in options:
        if reason.code == code:
            return translate(reason.label)
    return ""


def _reason_text(form: Form, answers: Answers) -> str:
    if answers.verdict == Verdict.APPROVE:
        coded = _label(form.dissents, answers.dissent_code)
    else:
        coded = _label(form.reasons, answers.reason_code)
    changed = ""
    if answers.change_reason:
        changed = gettext("Reason for change: %(reason)s") % {"reason": answers.change_reason}
    declared = str(DECLARATIONS.get(answers.declaration, ""))
    return _joined("\n", coded, answers.reason, changed, declared)


def _finding_text(form: Form, finding: RubricAnswer) -> str:
    value = str(FINDINGS.get(finding.value, finding.value))
    return _joined(" · ", value, _severity_text(form, finding_decision(finding)[2]))


def _severity_text(form: Form, value: str) -> str:
    label = value
    for level in form.severities:
        if level.value == value:
            label = translate(level.label)
    if label:
        return gettext("harm: %(level)s") % {"level": label}
    return ""


def _extra_lines(form: Form, columns: Sequence[ReviewColumn]) -> list[ComparedLine]:
    """Lines for added rubrics, sources and highlights, if any review has some."""
    added, citations, highlights = [], [], []
    for column in columns:
        added.append(_added_lines(form, column.answers))
        citations.append([citation_line(citation) for citation in column.answers.citations])
        highlights.append([highlight_line(form, highlight) for highlight in column.answers.highlights])
    lines = []
    if any(added):
        differs = _values_differ(additions_decision(column.answers) for column in columns)
        lines.append(ComparedLine(gettext("Rubrics added"), (), _listed(columns, added), differs, "added"))
    # Each cites and highlights what convinced them.
    if any(citations):
        lines.append(ComparedLine(gettext("Evidence"), (), _listed(columns, citations), False, "citations", free=True))
    if any(highlights):
        cells = _listed(columns, highlights)
        lines.append(ComparedLine(gettext("Highlights"), (), cells, False, "highlights", free=True))
    return lines


def _listed(columns: Sequence[ReviewColumn], texts: Sequence[Sequence[str]]) -> tuple[ComparedCell, ...]:
    """How many texts each review has, and the texts."""
    cells = []
    for column, listed in zip(columns, texts, strict=True):
        cells.append(ComparedCell(column.who, str(len(listed)), "\n".join(listed)))
    return tuple(cells)


def highlight_line(form: Form, highlight: Highlight) -> str:
    """A highlight in one line of text."""
    name = highlight.label
    for label in form.labels:
        if label.value == highlight.label:
            name = translate(label.label)
    line = with_label(name, gettext("“%(passage)s”") % {"passage": highlight.quote})
    if highlight.first_look:
        return f"{line} ({gettext('first look')})"
    return line


def _added_lines(form: Form, answers: Answers) -> list[str]:
    lines = []
    for rubric in answers.added:
        lines.append(_joined(" ", *rubric.tags, rubric.criterion.strip(), _severity_text(form, rubric.severity)))
    return lines


def answer_text(question: Question, answer: Answer) -> str:
    """An answer as its translated labels; a value unknown to the question is left as it is."""
    return "; ".join(translate(choice.label) for choice in question.chosen(answer.value)) or answer.value


def citation_line(citation: Citation) -> str:
    """A source in one line of text."""
    kind = str(CITATION_KINDS.get(citation.kind, citation.kind))
    if citation.trap:
        level = str(CITATION_LEVELS.get(level_of(citation), level_of(citation)))
        in_brackets = ""
        if level and level != kind:
            in_brackets = f"({level})"
        kind = _joined(" ", f"{citation.trap} · {kind}", in_brackets)
    section = ""
    if citation.kind != "case":  # for which it is a machine-readable position
        section = citation.section.strip()
    passage = ""
    if citation.passage.strip():
        passage = gettext("“%(passage)s”") % {"passage": citation.passage.strip()}
    source = with_label(kind, _joined(", ", citation.reference.strip(), section))
    return _joined(" ", source, passage, f"({citation.read_on})")


def plain_text(form: Form, answers: Answers) -> str:
    """All answers as plain text, to be copied."""
    entries: list[tuple[str, str, str]] = []  # title, value, note
    for question in form.questions:
        answer = answers.answer(question.key)
        entries.append((question_title(question), answer_text(question, answer), answer.note))
    for number, rubric in enumerate(form.rubrics, 1):
        finding = answers.finding(rubric.key)
        title = gettext("Rubric %(number)s") % {"number": number}
        entries.append((title, _finding_text(form, finding), _joined("\n", finding.wording, finding.note)))
    for line in _added_lines(form, answers):
        entries.append((gettext("Your rubric"), "", line))
    for citation in answers.citations:
        entries.append((gettext("Source"), "", citation_line(citation)))
    for highlight in answers.highlights:
        entries.append((gettext("Highlight"), "", highlight_line(form, highlight)))
    verdict = str(VERDICTS.get(answers.verdict, answers.verdict))
    entries.append((gettext("Verdict"), verdict, _reason_text(form, answers)))
    paragraphs = []
    for title, value, note in entries:
        if value or note:
            paragraphs.append(_joined("\n", with_label(title, value).strip(), note))
    return "\n\n".join(paragraphs)


def wording_offers(columns: Sequence[ReviewColumn]) -> dict[str, list[Offer]]:
    """The corrected wordings of other reviewers, by rubric; each can be adopted by one choice."""
    offers: dict[str, list[Offer]] = {}
    for column in columns:
        for key, finding in column.answers.rubrics.items():
            wording = finding.wording.strip()
            rubric_offers = offers.setdefault(key, [])
            if column.own or finding.value != "corrected" or wording in {offer.wording for offer in rubric_offers}:
                continue
            label = gettext("Corrected (%(who)s's wording)") % {"who": column.who.lower()}
            rubric_offers.append(Offer(f"{ADOPT_PREFIX}{column.role}", label, wording))
    return offers


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A part of a case that differs from the previous version: its changed turns, in order."""

    title: str
    pairs: tuple[TurnPair, ...]


def version_changes(before: CaseSpec, after: CaseSpec) -> list[AnswerChange]:
    """The differences between two versions of a case: in its texts, conversations and rubrics.

    Of a conversation with a trap, the altered side is compared. Parts are matched by kind and by
    their position among those of their kind.
    """
    old, new = _parts(before), _parts(after)
    changes: list[AnswerChange] = []
    # A bait question appears twice: in the conversation and by itself. List its change once.
    seen: set[tuple[Span, ...]] = set()
    for name in dict.fromkeys([*new, *old]):
        title = (new.get(name) or old[name])[0]
        absent: tuple[str, Sequence[Turn]] = ("", ())
        was, now = old.get(name, absent)[1], new.get(name, absent)[1]
        if name == "rubrics":
            pairs = _pairs_by_key(was, now)
        else:
            pairs = tuple(align_turns(was, now))
        if changed := tuple(pair for pair in pairs if pair.change != "same" and pair.spans not in seen):
            seen.update(pair.spans for pair in changed)
            changes.append(AnswerChange(translate(title), changed))
    return changes


def _pairs_by_key(before: Sequence[Turn], after: Sequence[Turn]) -> tuple[TurnPair, ...]:
    """The rubrics of two versions: a rubric that was written again is one change, not two."""
    old = {rubric.speaker: rubric for rubric in before}
    new = {rubric.speaker: rubric for rubric in after}
    pairs = []
    for key in dict.fromkeys([*new, *old]):
        pairs.append(turn_pair(old.get(key), new.get(key)))
    return tuple(pairs)


def _parts(spec: CaseSpec) -> dict[str, tuple[str, Sequence[Turn]]]:
    parts: dict[str, tuple[str, Sequence[Turn]]] = {}
    for block in spec.blocks:
        turns = _turns(block)
        if turns:
            position = sum(name.startswith(block.kind) for name in parts)
            parts[f"{block.kind} {position}"] = (block.title, turns)
    if spec.form.rubrics:
        parts["rubrics"] = (gettext("Rubrics"), [Turn(rubric.key, rubric.criterion) for rubric in spec.form.rubrics])
    return parts


def _turns(block: Block) -> Sequence[Turn]:
    match block:
        case Diff():
            return block.after
        case Dialogue():
            return block.turns
        case Text():
            return (Turn(block.title, block.text),)
    return ()
