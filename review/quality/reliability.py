"""Whether to trust the reviews: agreement by criterion, and one physician's own figures. Read only.

Only sealed answers count (phase COMMIT: the other's was not yet shown), and no review that was taken back. Agreement is
on cases that are work; what a physician has answered includes the copies (calibration, repeats), because a count without them
would tell those who keep a count which cases were copies. Nothing here puts physicians in an order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from statistics import median
from typing import Any

from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone
from django.utils.translation import get_language, gettext

from review.access.visibility import counted_reviews
from review.calibration import queries
from review.common import sql
from review.labels import translate
from review.models import Case, Review, User
from review.quality import activity
from review.quality.agreement import Agreement, agreement
from review.rules.case_spec import answers_from_json, spec_from_json
from review.rules.questions import RUBRIC_VALUES, STANDING, Form
from review.rules.reading_time import count_block_words
from review.rules.state_machine import Phase, Role, State, Verdict

SHOWN = 200  # cases in the picture of speed against length: the last so many


class RaterPair(StrEnum):
    """Which two answers are compared: the reviewers' blind ones, or the adjudicators' first votes.

    The votes are sealed from each other. They are independent answers only where the policy hides the reviews from the
    adjudicators: elsewhere both have read the same two reviews, and what these agree on was filled in for them.
    """

    REVIEWERS = "reviewers"
    ADJUDICATORS = "adjudicators"


PAIRS: dict[RaterPair, tuple[Role, Role]] = {
    RaterPair.REVIEWERS: (Role.PRIMARY, Role.SECONDARY),
    RaterPair.ADJUDICATORS: (Role.ADJUDICATOR_1, Role.ADJUDICATOR_2),
}


def blind_answers() -> QuerySet[Review]:
    """The answers by which agreement is counted."""
    return counted_reviews().filter(phase=Phase.COMMIT, case__kind=Case.Kind.WORK)


def _answered(physician: User) -> QuerySet[Review]:
    """Every case answered, copies included."""
    return counted_reviews().filter(phase=Phase.COMMIT, physician=physician)


# ---------------------------------------------------------------------------------------------------------- agreement

Answers = Mapping[str, Any]  # as stored
Read = Callable[[Answers, Answers], list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Criterion:
    """Something two physicians may agree on. `read` takes the pairs out of both answers to one case."""

    key: str
    label: str
    categories: tuple[str, ...]
    ordinal: bool
    read: Read


@dataclass(frozen=True, slots=True)
class AgreementLine:
    """One criterion of one benchmark between one pair of answers."""

    benchmark: str
    pair: RaterPair
    key: str
    label: str
    ordinal: bool
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class AgreementTable:
    """The lines asked for, and what there is to ask for."""

    lines: tuple[AgreementLine, ...]
    benchmarks: tuple[str, ...]
    tasks: tuple[str, ...]


def agreement_table(*, benchmark: str = "", task: str = "", pair: str = "") -> AgreementTable:
    """Agreement on every criterion, by benchmark and pair; an empty argument means all.

    A pair of which no case has both answers is left out, unless it is asked for and was begun. Counted anew when a review was
    submitted or taken back, or a case was opened; until then each process keeps what it has counted.
    """
    return _counted(_state_of_reviews(), get_language() or "", benchmark, task, pair)


_STATE = """SELECT COUNT(*), MAX(r.id), (SELECT MAX(id) FROM review_case),
    (SELECT hash FROM review_event WHERE kind IN ('submitted', 'retracted') ORDER BY id DESC LIMIT 1)
FROM review_review r JOIN review_case c ON c.id = r.case_id LEFT JOIN review_retraction t ON t.review_id = r.id
WHERE r.phase = 'commit' AND c.kind = 'work' AND t.id IS NULL"""


def _state_of_reviews() -> tuple[Any, ...]:
    """What tells any state of the reviews from any other: nothing of a review changes, and the hash of the last event on one
    covers all that came before it."""
    return sql.first_row(_STATE) or ()


@lru_cache(maxsize=64)
def _counted(_state: tuple[Any, ...], _language: str, benchmark: str, task: str, pair: str) -> AgreementTable:
    wanted = [one for one in RaterPair if pair in ("", one)]
    roles = {role: one for one in wanted for role in PAIRS[one]}
    rows = (
        blind_answers()
        .order_by("case_id")
        .values_list("case__benchmark", "case__spec__task", "case_id", "role", "answers")
    )
    answers: dict[tuple[str, RaterPair], dict[int, dict[str, Answers]]] = defaultdict(lambda: defaultdict(dict))
    benchmarks, tasks = set(), set()
    for name, about, case, role, given in rows.iterator():
        benchmarks.add(name)
        tasks.add(about or "")
        if role in roles and benchmark in ("", name) and task in ("", about):
            answers[name, roles[Role(role)]][case][role] = given
    forms = _forms(benchmarks)
    lines = []
    for (name, one), cases in sorted(answers.items(), key=lambda item: (item[0][0], wanted.index(item[0][1]))):
        first, second = PAIRS[one]
        both = [(given[first], given[second]) for given in cases.values() if len(given) == 2]
        if both or pair:
            lines += [_line(name, one, criterion, both) for criterion in _criteria(forms.get(name), both)]
    return AgreementTable(tuple(lines), tuple(sorted(benchmarks)), tuple(sorted(tasks - {""})))


def _line(benchmark: str, pair: RaterPair, criterion: Criterion, both: list[tuple[Answers, Answers]]) -> AgreementLine:
    found = [criterion.read(first, second) for first, second in both]
    # Forms change with the years: an answer that the newest one no longer offers is a category all the same.
    older = sorted({answer for pairs in found for two in pairs for answer in two} - set(criterion.categories))
    figures = agreement(found, [*criterion.categories, *older], ordinal=criterion.ordinal)
    return AgreementLine(benchmark, pair, criterion.key, criterion.label, criterion.ordinal, figures)


def _forms(benchmarks: Iterable[str]) -> dict[str, Form]:
    """The form of the newest case of each benchmark: its questions, in its wording."""
    newest = Case.objects.filter(kind=Case.Kind.WORK, benchmark__in=benchmarks).values("benchmark").order_by()
    rows = Case.objects.filter(pk__in=newest.annotate(last=Max("pk")).values("last"))
    return {case.benchmark: case.shown.form for case in rows}


def _criteria(form: Form | None, both: list[tuple[Answers, Answers]]) -> list[Criterion]:
    verdict = Criterion("verdict", gettext("Verdict"), tuple(Verdict), False, _read_verdict)
    if form is None:
        return [verdict]
    found = [verdict]
    # What is asked once a rubric or trap is one criterion, in pairs of answers about the same.
    scored = {each.key.partition(":")[0]: each for each in form.questions if each.kind != "text"}
    for key, question in scored.items():
        values = [choice.value for choice in question.choices]
        ordinal = len(values) > 2 and all(value.isdecimal() for value in values)
        in_order = tuple(sorted(values, key=int)) if ordinal else tuple(values)
        found.append(Criterion(f"question.{key}", translate(question.label), in_order, ordinal, _reads_question(key)))
    words = {each.key.partition(":")[0] for each in form.questions} - scored.keys()
    asked = {key.partition(":")[0] for pair in both for given in pair for key in given["questions"]}
    older = asked - scored.keys() - words
    found += [Criterion(f"question.{key}", key, (), False, _reads_question(key)) for key in sorted(older)]
    findings = RUBRIC_VALUES if form.rubrics_editable else RUBRIC_VALUES[:3]
    found.append(Criterion("rubric", gettext("Rubric adequacy"), findings, False, _read_findings))
    if form.severities:
        levels = tuple(level.value for level in form.severities)
        found.append(Criterion("severity", gettext("Rubric severity"), levels, True, _read_severities))
    if form.reasons:
        codes = tuple(reason.code for reason in form.reasons)
        found.append(Criterion("reason", gettext("Reason for rejection"), codes, False, _read_reasons))
    return found


def _read_verdict(first: Answers, second: Answers) -> list[tuple[str, str]]:
    return [(first["verdict"], second["verdict"])]


def _reads_question(key: str) -> Read:
    def read(first: Answers, second: Answers) -> list[tuple[str, str]]:
        pairs = [
            (answer.get("value", ""), second["questions"].get(name, {}).get("value", ""))
            for name, answer in first["questions"].items()
            if name == key or name.startswith(f"{key}:")
        ]
        return [(one, other) for one, other in pairs if one and other]

    return read


def _read_findings(first: Answers, second: Answers) -> list[tuple[str, str]]:
    pairs = [
        (finding.get("value", ""), second["rubrics"].get(key, {}).get("value", ""))
        for key, finding in first["rubrics"].items()
    ]
    return [(one, other) for one, other in pairs if one and other]


def _read_severities(first: Answers, second: Answers) -> list[tuple[str, str]]:
    """Of the rubrics that both leave standing: of another, a level that was chosen before says nothing."""
    both = [(finding, second["rubrics"].get(key, {})) for key, finding in first["rubrics"].items()]
    standing = [two for two in both if all(each.get("value") in STANDING for each in two)]
    pairs = [(one.get("severity", ""), other.get("severity", "")) for one, other in standing]
    return [(one, other) for one, other in pairs if one and other]


def _read_reasons(first: Answers, second: Answers) -> list[tuple[str, str]]:
    both = [given.get("reason_code", "") for given in (first, second) if given["verdict"] == Verdict.REJECT]
    return [(both[0], both[1])] if len(both) == 2 and all(both) else []


# ------------------------------------------------------------------------------------------------------ one physician


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many; `value` is None of none."""

    part: int
    whole: int

    @property
    def value(self) -> float | None:
        return self.part / self.whole if self.whole else None


@dataclass(frozen=True, slots=True)
class Dot:
    """One case: its length in words, the active minutes on it."""

    words: int
    minutes: float


@dataclass(frozen=True, slots=True)
class Week:
    """A week from `monday` on: cases answered, median active minutes a case, own blind verdict against the outcome."""

    monday: date
    cases: int
    minutes: float | None
    agreed: Share


@dataclass(frozen=True, slots=True)
class Figures:
    """One physician's work, copies included. `minutes`: median active minutes a case, over the `measured` ones.

    first_pass: of the answered cases that have closed, how many ended as their blind verdict said; without copies, whose
    outcome nobody is told who answers them, so that they look like cases still open.
    calibration: of the expected answers to calibration cases, how many were given.
    repeat_verdicts, repeat_answers: of a case seen again unknowingly, how many verdicts (answers) were the same.
    """

    stages: Mapping[State, int]
    minutes: float | None
    measured: int
    first_pass: Share
    calibration: Share
    calibrated: int
    repeat_verdicts: Share
    repeat_answers: Share
    dots: tuple[Dot, ...]
    weeks: tuple[Week, ...]

    @property
    def cases(self) -> int:
        return sum(self.stages.values())


_ENDS = {State.APPROVED: Verdict.APPROVE, State.REJECTED: Verdict.REJECT}


def figures(physician: User) -> Figures:
    """All there is to say about one physician's work, from the first day on.

    Calibration and repeats up to last Monday: a figure that moves right after an answer tells which case was a copy.
    """
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    monday = today - timedelta(days=today.weekday())
    minutes = activity.minutes_by_assignment(physician)
    rows: list[Any] = list(
        _answered(physician)
        .order_by("id")
        .values_list("assignment_id", "role", "verdict", "submitted_at", "case__state", "case__kind", named=True)
    )
    stages = {stage: 0 for stage in State if not stage.final}
    weeks: dict[date, list[Any]] = defaultdict(list)
    for row in rows:
        stages[Role(row.role).stage] += 1
        day = timezone.localdate(row.submitted_at)
        weeks[day - timedelta(days=day.weekday())].append(row)
    taken = [minutes[row.assignment_id] for row in rows if row.assignment_id in minutes]
    scores = [score for score in queries.scores(physician) if score.at < monday]
    repeated = [
        queries.compare(answers_from_json(first), answers_from_json(again))
        for first, again in _repeats(physician, monday)
    ]
    return Figures(
        stages=stages,
        minutes=median(taken) if taken else None,
        measured=len(taken),
        first_pass=_first_pass(rows),
        calibration=Share(sum(score.matched for score in scores), sum(score.asked for score in scores)),
        calibrated=len(scores),
        repeat_verdicts=Share(sum("verdict" not in missed for _, _, missed in repeated), len(repeated)),
        repeat_answers=Share(sum(same for same, _, _ in repeated), sum(asked for _, asked, _ in repeated)),
        dots=_dots(physician, minutes),
        weeks=tuple(_week(monday, weeks[monday], minutes) for monday in sorted(weeks)),
    )


def _week(monday: date, rows: list[Any], minutes: Mapping[int, float]) -> Week:
    taken = [minutes[row.assignment_id] for row in rows if row.assignment_id in minutes]
    return Week(monday, len(rows), median(taken) if taken else None, _first_pass(rows))


def _first_pass(rows: Iterable[Any]) -> Share:
    ended = [
        (_ENDS[row.case__state], row.verdict)
        for row in rows
        if row.case__state in _ENDS and row.case__kind == Case.Kind.WORK
    ]
    return Share(sum(end == verdict for end, verdict in ended), len(ended))


def _repeats(physician: User, before: datetime) -> QuerySet[Review, tuple[Any, Any]]:
    """(what was answered first, what was answered when the case came again)."""
    again = counted_reviews().filter(
        physician=physician, phase=Phase.COMMIT, case__kind=Case.Kind.REPEAT, submitted_at__lt=before
    )
    return again.values_list("case__repeats__answers", "answers")


def _dots(physician: User, minutes: Mapping[int, float]) -> tuple[Dot, ...]:
    rows = _answered(physician).filter(assignment__in=list(minutes)).order_by("-id")
    return tuple(
        Dot(count_block_words(spec_from_json(spec).blocks), minutes[assignment])
        for assignment, spec in rows.values_list("assignment_id", "case__spec")[:SHOWN]
    )


@dataclass(frozen=True, slots=True)
class MyWeek:
    """What a physician did since a moment: active time, and their blind verdicts of the cases that closed since."""

    spent: timedelta
    agreed: Share


def my_week(physician: User, since: datetime) -> MyWeek:
    """Two figures for the front page."""
    closed = blind_answers().filter(physician=physician, case__closed_at__gte=since, case__state__in=_ENDS)
    right = Q(case__state=State.APPROVED, verdict=Verdict.APPROVE) | Q(
        case__state=State.REJECTED, verdict=Verdict.REJECT
    )
    found = closed.aggregate(part=Count("pk", filter=right), whole=Count("pk"))
    return MyWeek(activity.active_time(physician, since=since), Share(**found))
