"""What several physicians said about one case, side by side; one's own words as plain text; what a new version changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from review.answers.posted_answers import ADOPTING, Offer
from review.labels import CITATION_KINDS, DECLARATIONS, FINDINGS, NAMELESS, PHASES, ROLES, VERDICTS, labelled, translate
from review.models import Review, User
from review.rules.blocks import Block, Dialogue, Diff, Highlight, Text, Turn
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.citations import identity
from review.rules.diffing import Span, TurnPair, align_turns, diff_words
from review.rules.questions import (
    Answer,
    Answers,
    Citation,
    Form,
    Question,
    RubricAnswer,
    decided_additions,
    decided_finding,
    decided_verdict,
)
from review.rules.state_machine import Verdict


@dataclass(frozen=True, slots=True)
class ReviewColumn:
    """One review as a column: whose it is to this reader, and what it says. `own`: the reader's."""

    role: str
    who: str
    answers: Answers
    own: bool = False

    @property
    def highlights(self) -> tuple[Highlight, ...]:
        return self.answers.highlights


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """What one voice says to one line. `diff`: a corrected wording against the original."""

    who: str
    value: str
    note: str
    diff: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """One question, rubric or the verdict, with what each voice says to it. `apart`: so many levels of harm lie between.

    free: the voices need not agree on it.
    """

    title: str
    tags: tuple[str, ...]
    cells: tuple[ComparedCell, ...]
    differs: bool
    apart: int = 0
    free: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """All lines of a form, parted by whether the voices differ; the verdict first in its part.

    free: lines on which nobody has to agree.
    """

    differing: tuple[ComparedLine, ...]
    agreeing: tuple[ComparedLine, ...]
    free: tuple[ComparedLine, ...] = ()


def anonymous_columns(reader: User, reviews: Iterable[Review]) -> list[ReviewColumn]:
    """The last word of each role, without names; the reader's own is 'You'."""
    last = {review.role: review for review in reviews}
    return [
        ReviewColumn(
            role=role,
            who=gettext("You") if last[role].physician_id == reader.pk else str(label),
            answers=answers_from_json(last[role].answers),
            own=last[role].physician_id == reader.pk,
        )
        for role, label in NAMELESS.items()
        if role in last
    ]


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


def compare(form: Form, voices: Sequence[ReviewColumn]) -> Comparison:
    """What each voice says to the verdict, to each question and to each rubric, and what it cites.

    Every answer counts as a difference: values, wordings, harm, codes of reasons and sources. Words of explanation do not.
    """
    verdicts = tuple(
        ComparedCell(
            voice.who, str(VERDICTS.get(voice.answers.verdict, voice.answers.verdict)), _reasons(form, voice.answers)
        )
        for voice in voices
    )
    lines = [
        ComparedLine(gettext("Verdict"), (), verdicts, _differ(decided_verdict(voice.answers) for voice in voices))
    ]
    for question in form.questions:
        given = [voice.answers.questions.get(question.key, Answer()) for voice in voices]
        cells = tuple(
            ComparedCell(voice.who, worded(question, answer), answer.note)
            for voice, answer in zip(voices, given, strict=True)
        )
        # An answer in words has no value, and one that a stage was not asked is none: neither can differ.
        differs = question.compared and _differ(answer.value for answer in given if answer.value)
        lines.append(ComparedLine(titled(question), (), cells, differs, free=not question.compared))
    for rubric in form.rubrics:
        found = [voice.answers.rubrics.get(rubric.key, RubricAnswer()) for voice in voices]
        cells = tuple(
            ComparedCell(
                voice.who,
                _finding(form, finding),
                finding.note,
                diff_words(rubric.criterion, finding.wording) if finding.value == "corrected" else (),
            )
            for voice, finding in zip(voices, found, strict=True)
        )
        apart = _levels_apart(form, [decided_finding(finding)[2] for finding in found])
        lines.append(ComparedLine(rubric.criterion, rubric.tags, cells, _differ(map(decided_finding, found)), apart))
    lines += _extras(form, voices)
    return Comparison(
        differing=tuple(line for line in lines if line.differs),
        agreeing=tuple(line for line in lines if not (line.differs or line.free)),
        free=tuple(line for line in lines if line.free),
    )


def titled(question: Question) -> str:
    """The name of a question, and the rubric or trap that it is about."""
    about = question.key.partition(":")[2]
    return f"{translate(question.label)} · {about}" if about else translate(question.label)


def _differ(values: Iterable[object]) -> bool:
    return len(set(values)) > 1


def _levels_apart(form: Form, severities: Sequence[str]) -> int:
    """How many levels of the harm scale lie between the least and the most that was chosen."""
    places = [n for n, level in enumerate(form.severities) if level.value in severities]
    return max(places) - min(places) if places else 0


def _reasons(form: Form, answers: Answers) -> str:
    approved = answers.verdict == Verdict.APPROVE
    offered, code = (form.dissents, answers.dissent_code) if approved else (form.reasons, answers.reason_code)
    coded = next((translate(reason.label) for reason in offered if reason.code == code), "")
    changed = gettext("Reason for change: %(reason)s") % {"reason": answers.change_reason}
    declared = str(DECLARATIONS.get(answers.declaration, ""))
    return "\n".join(
        part for part in (coded, answers.reason, changed if answers.change_reason else "", declared) if part
    )


def _finding(form: Form, finding: RubricAnswer) -> str:
    value = str(FINDINGS.get(finding.value, finding.value))
    return " · ".join(part for part in (value, _severity(form, decided_finding(finding)[2])) if part)


def _severity(form: Form, value: str) -> str:
    label = next((translate(level.label) for level in form.severities if level.value == value), value)
    return gettext("harm: %(level)s") % {"level": label} if label else ""


def _extras(form: Form, voices: Sequence[ReviewColumn]) -> list[ComparedLine]:
    """The sources and the rubrics of their own, where anybody gave any."""
    found = []
    if any(voice.answers.added for voice in voices):
        cells = tuple(
            ComparedCell(voice.who, str(len(voice.answers.added)), "\n".join(_added(form, voice.answers)))
            for voice in voices
        )
        differs = _differ(decided_additions(voice.answers) for voice in voices)
        found.append(ComparedLine(gettext("Rubrics added"), (), cells, differs))
    if any(voice.answers.citations for voice in voices):
        cells = tuple(
            ComparedCell(
                voice.who, str(len(voice.answers.citations)), "\n".join(cited(each) for each in voice.answers.citations)
            )
            for voice in voices
        )
        differs = _differ(frozenset(map(identity, voice.answers.citations)) for voice in voices)
        found.append(ComparedLine(gettext("Evidence"), (), cells, differs))
    if any(voice.answers.highlights for voice in voices):
        cells = tuple(
            ComparedCell(
                voice.who,
                str(len(voice.answers.highlights)),
                "\n".join(highlighted(form, each) for each in voice.answers.highlights),
            )
            for voice in voices
        )
        differs = _differ(frozenset(voice.answers.highlights) for voice in voices)
        found.append(ComparedLine(gettext("Highlights"), (), cells, differs))
    return found


def highlighted(form: Form, highlight: Highlight) -> str:
    """A highlight in one line."""
    label = next((translate(each.label) for each in form.labels if each.value == highlight.label), highlight.label)
    words = gettext("“%(passage)s”") % {"passage": highlight.quote}
    return labelled(label, words) + (f" ({gettext('first look')})" if highlight.first_look else "")


def _added(form: Form, answers: Answers) -> list[str]:
    return [
        " ".join(part for part in (*each.tags, each.criterion.strip(), _severity(form, each.severity)) if part)
        for each in answers.added
    ]


def worded(question: Question, answer: Answer) -> str:
    """An answer in the reader's words; a value that the question does not know as it is."""
    return "; ".join(translate(choice.label) for choice in question.chosen(answer.value)) or answer.value


def cited(citation: Citation) -> str:
    """A source in one line."""
    kind = str(CITATION_KINDS.get(citation.kind, citation.kind))
    section = "" if citation.kind == "case" else citation.section.strip()  # a place for programs
    place = ", ".join(part for part in (citation.reference.strip(), section) if part)
    passage = gettext("“%(passage)s”") % {"passage": citation.passage.strip()} if citation.passage.strip() else ""
    return " ".join(part for part in (f"{kind}:", place, passage, f"({citation.read_on})") if part)


def plain(form: Form, answers: Answers) -> str:
    """Everything typed, as text to be copied away."""
    lines = []
    for question in form.questions:
        answer = answers.questions.get(question.key, Answer())
        lines.append((titled(question), worded(question, answer), answer.note))
    for number, rubric in enumerate(form.rubrics, 1):
        finding = answers.rubrics.get(rubric.key, RubricAnswer())
        title = gettext("Rubric %(number)s") % {"number": number}
        lines.append((title, _finding(form, finding), "\n".join(filter(None, (finding.wording, finding.note)))))
    lines += [(gettext("Your rubric"), "", text) for text in _added(form, answers)]
    lines += [(gettext("Source"), "", cited(each)) for each in answers.citations]
    lines += [(gettext("Highlight"), "", highlighted(form, each)) for each in answers.highlights]
    verdict = str(VERDICTS.get(answers.verdict, answers.verdict))
    lines.append((gettext("Verdict"), verdict, _reasons(form, answers)))
    return "\n\n".join(
        "\n".join(part for part in (labelled(title, value).strip(), note) if part)
        for title, value, note in lines
        if value or note
    )


def offers(voices: Sequence[ReviewColumn]) -> dict[str, list[Offer]]:
    """The corrected wordings of others, by rubric: each can be adopted by one choice."""
    found: dict[str, list[Offer]] = {}
    for voice in voices:
        for key, finding in voice.answers.rubrics.items():
            wording = finding.wording.strip()
            known = found.setdefault(key, [])
            if voice.own or finding.value != "corrected" or wording in {offer.wording for offer in known}:
                continue
            label = gettext("Corrected (%(who)s's wording)") % {"who": voice.who.lower()}
            known.append(Offer(f"{ADOPTING}{voice.role}", label, wording))
    return found


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a case that is not as it was in the version before: its turns that changed, in order."""

    title: str
    pairs: tuple[TurnPair, ...]


def changes(before: CaseSpec, after: CaseSpec) -> list[Change]:
    """What is new in a version: its texts, conversations and rubrics against those of the version before.

    Of a conversation the altered side counts; parts are matched by their place among those of their kind.
    """
    old, new = _parts(before), _parts(after)
    found: list[Change] = []
    seen: set[tuple[Span, ...]] = set()  # a bait question stands in the conversation, and once more by itself
    for name in dict.fromkeys([*new, *old]):
        title = (new.get(name) or old[name])[0]
        pairs = align_turns(old[name][1] if name in old else (), new[name][1] if name in new else ())
        if changed := tuple(pair for pair in pairs if pair.change != "same" and pair.spans not in seen):
            seen.update(pair.spans for pair in changed)
            found.append(Change(translate(title), changed))
    return found


def _parts(spec: CaseSpec) -> dict[str, tuple[str, Sequence[Turn]]]:
    parts: dict[str, tuple[str, Sequence[Turn]]] = {}
    for block in spec.blocks:
        turns = _turns(block)
        if turns:
            place = sum(name.startswith(block.kind) for name in parts)
            parts[f"{block.kind} {place}"] = (block.title, turns)
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
