"""The reliability of the reviews: agreement by criterion, and the figures of one physician.

Only blind answers count (phase COMMIT, given before the other's was shown), and no retracted
reviews. Agreement is computed on real cases only. A physician's figures include the copies
(calibration, repeats), because physicians who count along could otherwise tell which cases were
copies. Nothing here ranks physicians.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from statistics import median
from typing import Annotated, Any

from django.conf import settings
from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone
from django.utils.translation import get_language, gettext, override

from review.access.visibility import counted_reviews
from review.calibration import queries
from review.common.figures import figure
from review.labels import FINDINGS, VERDICTS, WORDINGS, translate
from review.models import Case, Event, Review, User
from review.quality import activity
from review.quality.agreement import Agreement, agreement
from review.quality.scales import Scale, merged, offered_answers
from review.rules.case_spec import answers_from_json, spec_from_json
from review.rules.consolidation import added_wordings, same_wordings
from review.rules.questions import RETAINED_VALUES, Form
from review.rules.reading_time import count_block_words
from review.rules.shown_fields import Hidden, Shown, shown
from review.rules.state_machine import Phase, Role, State, Verdict

MAX_DOTS = 200  # the most recent cases in the chart of active time over length


class RaterPair(StrEnum):
    """Which two answers are compared: the reviewers' blind ones, or the adjudicators' first votes.

    The votes are given without knowing each other, but they are independent only if the policy
    hides the reviews from the adjudicators. Otherwise both have read the same two reviews, and the
    answers on which these agree were filled in for them.
    """

    REVIEWERS = "reviewers"
    ADJUDICATORS = "adjudicators"


PAIRS: dict[RaterPair, tuple[Role, Role]] = {
    RaterPair.REVIEWERS: (Role.PRIMARY, Role.SECONDARY),
    RaterPair.ADJUDICATORS: (Role.ADJUDICATOR_1, Role.ADJUDICATOR_2),
}


def blind_answers() -> QuerySet[Review]:
    """The reviews whose agreement is counted."""
    return counted_reviews().filter(phase=Phase.COMMIT, case__kind=Case.Kind.WORK)


def _answered(physician: User) -> QuerySet[Review]:
    """A physician's first answers to all cases, including copies."""
    return counted_reviews().filter(phase=Phase.COMMIT, physician=physician)


# ---------------------------------------------------------------------------------------- agreement

Answers = Mapping[str, Any]  # as stored
PairReader = Callable[[Answers, Answers], list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class AgreementCriterion:
    """Something on which two physicians may agree.

    `question`: its name in `ratings.csv`. `read` extracts the pairs of values from two physicians'
    answers to a case. `words`: what a value is called on the form.
    """

    key: str
    label: str
    question: str
    read: PairReader
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AgreementLine:
    """The agreement on one criterion of a benchmark, between one pair of raters.

    `answers`: the categories of the agreement, as the form words them.
    """

    benchmark: str
    pair: RaterPair
    key: str
    label: str
    ordinal: bool
    agreement: Agreement
    answers: Hidden[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AgreementTable:
    """The requested lines, and the benchmarks and tasks that can be requested."""

    lines: tuple[AgreementLine, ...]
    benchmarks: Hidden[tuple[str, ...]]
    tasks: Hidden[tuple[str, ...]]


def agreement_table(*, benchmark: str = "", task: str = "", pair: str = "") -> AgreementTable:
    """Agreement on every criterion, by benchmark and pair; an empty argument means all.

    A pair without a case that has both answers is left out, unless it is requested and has one of
    them. Each process caches the result until a review is submitted or retracted, or a case opened.
    """
    return _agreement_in(get_language() or "", benchmark, task, pair)


@figure(*((language, "", "", "") for language, _name in settings.LANGUAGES))
def _agreement_in(language: str, benchmark: str, task: str, pair: str) -> AgreementTable:
    with override(language or None):
        return _cached_agreement(_reviews_fingerprint(), language, benchmark, task, pair)


def _reviews_fingerprint() -> tuple[Any, ...]:
    """A value that changes whenever the reviews change.

    Reviews are immutable, and the hash of the last event about one covers all events before it.
    """
    about_reviews = Event.objects.filter(kind__in=(Event.Kind.SUBMITTED, Event.Kind.RETRACTED)).order_by("-id")
    counts = blind_answers().aggregate(number=Count("pk"), last=Max("pk"))
    last_case = Case.objects.aggregate(last=Max("pk"))
    return (*counts.values(), *last_case.values(), about_reviews.values_list("hash", flat=True).first())


@lru_cache(maxsize=64)
def _cached_agreement(_state: tuple[Any, ...], _language: str, benchmark: str, task: str, pair: str) -> AgreementTable:
    rater_pairs = [one for one in RaterPair if pair in ("", one)]
    roles: dict[str, RaterPair] = {}
    for one in rater_pairs:
        roles |= dict.fromkeys(PAIRS[one], one)
    rows = (
        blind_answers()
        .order_by("case_id")
        .values_list("case__benchmark", "case__spec__task", "case_id", "role", "answers")
    )
    answers: dict[tuple[str, RaterPair], dict[int, dict[str, Answers]]] = defaultdict(lambda: defaultdict(dict))
    benchmarks, tasks = set(), set()
    for name, case_task, case, role, case_answers in rows.iterator():
        benchmarks.add(name)
        if benchmark in ("", name):
            tasks.add(case_task or "")
        if role in roles and benchmark in ("", name) and task in ("", case_task):
            answers[name, roles[Role(role)]][case][role] = case_answers
    forms = _forms(benchmarks)
    lines = []
    for (name, one), cases in sorted(answers.items(), key=lambda item: (item[0][0], rater_pairs.index(item[0][1]))):
        first, second = PAIRS[one]
        both = {case: (by_role[first], by_role[second]) for case, by_role in cases.items() if len(by_role) == 2}
        if both or pair:
            offered = offered_answers(both)
            criteria = _criteria(forms.get(name), both.values())
            lines += [_agreement_line(name, one, criterion, both, offered) for criterion in criteria]
    return AgreementTable(tuple(lines), tuple(sorted(benchmarks)), tuple(sorted(tasks - {""})))


def _agreement_line(
    benchmark: str,
    pair: RaterPair,
    criterion: AgreementCriterion,
    both: Mapping[int, tuple[Answers, Answers]],
    offered: Mapping[int, Mapping[str, Scale]],
) -> AgreementLine:
    pairs_by_case = {case: criterion.read(first, second) for case, (first, second) in both.items()}
    counted = [case for case in sorted(both) if pairs_by_case[case]] or sorted(both)
    scales = [offered[case][criterion.question] for case in counted if criterion.question in offered[case]]
    given: set[str] = set()
    for pairs in pairs_by_case.values():
        given.update(*pairs)
    scale = merged(scales, given)
    figures = agreement(pairs_by_case.values(), scale.answers, ordinal=scale.ordinal)
    worded = tuple(criterion.words.get(answer, answer) for answer in figures.categories)
    return AgreementLine(benchmark, pair, criterion.key, criterion.label, scale.ordinal, figures, worded)


def _forms(benchmarks: Iterable[str]) -> dict[str, Form]:
    """The form of the newest case of each benchmark."""
    newest = Case.objects.filter(kind=Case.Kind.WORK, benchmark__in=benchmarks).values("benchmark").order_by()
    rows = Case.objects.filter(pk__in=newest.annotate(last=Max("pk")).values("last"))
    return {case.benchmark: case.localized_spec.form for case in rows}


def _criteria(form: Form | None, both: Collection[tuple[Answers, Answers]]) -> list[AgreementCriterion]:
    verdicts = {value: str(label) for value, label in VERDICTS.items()}
    verdict = AgreementCriterion("verdict", gettext("Verdict"), "verdict", _read_verdict, verdicts)
    if form is None:
        return [verdict]
    criteria = [verdict]
    # A question that is asked per rubric or trap is one criterion, with a pair of answers for each.
    labels = {question.key.partition(":")[0]: question.label for question in form.questions if question.kind != "text"}
    text_keys = {question.key.partition(":")[0] for question in form.questions} - labels.keys()
    asked: set[str] = set()
    for answers in chain.from_iterable(both):
        asked.update(key.partition(":")[0] for key in answers["questions"])
    names = {key: translate(label) for key, label in labels.items()}
    names |= {key: key for key in sorted(asked - labels.keys() - text_keys)}  # of older forms
    choices: dict[str, dict[str, str]] = defaultdict(dict)
    for question in form.questions:
        for choice in question.choices:
            choices[question.key.partition(":")[0]][choice.value] = translate(choice.label)
    for key, label in names.items():
        criteria.append(AgreementCriterion(f"question.{key}", label, key, _question_reader(key), choices[key]))
    findings = {value: str(label) for value, label in FINDINGS.items()}
    criteria.append(AgreementCriterion("rubric", gettext("Rubric adequacy"), "rubric", _read_findings, findings))
    kept, wordings = gettext("Wording of the rubrics kept"), {value: str(label) for value, label in WORDINGS.items()}
    criteria.append(AgreementCriterion("wording", kept, "wording", _read_wordings, wordings))
    if form.severities:
        harm, levels = gettext("Rubric severity"), {level.value: translate(level.label) for level in form.severities}
        criteria.append(AgreementCriterion("severity", harm, "severity", _read_severities, levels))
    if form.reasons:
        ground, reasons = gettext("Reason for rejection"), {each.code: translate(each.label) for each in form.reasons}
        criteria.append(AgreementCriterion("reason", ground, "reason", _read_reasons, reasons))
    return criteria


def _read_verdict(first: Answers, second: Answers) -> list[tuple[str, str]]:
    return [(first["verdict"], second["verdict"])]


def _both(first: Answers, second: Answers, part: str) -> dict[str, tuple[Answers, Answers]]:
    """What both answered to each question or rubric, by its key."""
    return {key: (answer, second[part].get(key, {})) for key, answer in first[part].items()}


def _given(pairs: Iterable[tuple[Answers, Answers]], name: str = "value") -> list[tuple[str, str]]:
    """The values that both gave."""
    return [(one[name], other[name]) for one, other in pairs if one.get(name) and other.get(name)]


def _question_reader(key: str) -> PairReader:
    def read(first: Answers, second: Answers) -> list[tuple[str, str]]:
        both = _both(first, second, "questions").items()
        return _given(two for name, two in both if name == key or name.startswith(f"{key}:"))

    return read


def _read_findings(first: Answers, second: Answers) -> list[tuple[str, str]]:
    return _given(_both(first, second, "rubrics").values())


def _read_wordings(first: Answers, second: Answers) -> list[tuple[str, str]]:
    """The words in which both keep a rubric, and the rubrics that either adds.

    Two corrections agree only if they are the same, and additions only if both made them.
    """
    both = [same_wordings(two) for two in _both(first, second, "rubrics").values()]
    one_added, other_added = added_wordings([first, second])
    pairs = [(one, other) for one, other in both if one and other]
    pairs += [(one_added[key], other_added[key]) for key in one_added]
    return pairs


def _read_severities(first: Answers, second: Answers) -> list[tuple[str, str]]:
    """The levels of the rubrics that both keep; on others a level is a meaningless leftover."""
    kept = []
    for one, other in _both(first, second, "rubrics").values():
        if one.get("value") in RETAINED_VALUES and other.get("value") in RETAINED_VALUES:
            kept.append((one, other))
    return _given(kept, "severity")


def _read_reasons(first: Answers, second: Answers) -> list[tuple[str, str]]:
    codes = [answers.get("reason_code", "") for answers in (first, second) if answers["verdict"] == Verdict.REJECT]
    if len(codes) == 2 and all(codes):
        return [(codes[0], codes[1])]
    return []


# ------------------------------------------------------------------------------------ one physician


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole; `value` is None if the whole is 0."""

    part: int
    whole: int

    @property
    @shown
    def value(self) -> float | None:
        if self.whole:
            return self.part / self.whole
        return None


@dataclass(frozen=True, slots=True)
class Dot:
    """One case: its length in words and the active minutes spent on it."""

    words: int
    minutes: float


@dataclass(frozen=True, slots=True)
class Week:
    """The week of `monday`: cases answered, median active minutes per case, verdicts that matched.

    agreed: the share of closed cases whose outcome matched the physician's blind verdict.
    """

    monday: date
    cases: int
    minutes: float | None
    agreed: Share


@dataclass(frozen=True, slots=True)
class PhysicianFigures:
    """One physician's work, including copies.

    minutes: median active minutes per case, over the `measured` cases.
    first_pass: the share of answered and closed cases whose outcome matched the blind verdict.
        Without copies, whose outcome physicians are not told, so that these look like open cases.
    calibration: the share of the expected answers that were given in calibration cases.
    repeat_verdicts, repeat_answers: the share of equal verdicts (answers) when a case was repeated
        without the physician's knowledge.
    """

    stages: Mapping[State, int]
    minutes: float | None
    measured: int
    first_pass: Share
    calibration: Share
    calibrated: int
    repeat_verdicts: Share
    repeat_answers: Share
    dots: Annotated[tuple[Dot, ...], Shown("speed")]
    weeks: tuple[Week, ...]

    @property
    def cases(self) -> int:
        return sum(self.stages.values())


_ENDS = {State.APPROVED: Verdict.APPROVE, State.REJECTED: Verdict.REJECT}


def figures(physician: User) -> PhysicianFigures:
    """The figures of all of a physician's work.

    Calibration and repeats only count up to last Monday: a figure that changes right after an
    answer would reveal that the case was a copy.
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
    durations = [minutes[row.assignment_id] for row in rows if row.assignment_id in minutes]
    scores = [score for score in queries.scores(physician) if score.at < monday]
    repeats = same_verdicts = same_answers = repeated_answers = 0
    for first, again in _repeats(physician, monday):
        same, asked, missed = queries.match_answers(answers_from_json(first), answers_from_json(again))
        repeats += 1
        same_verdicts += "verdict" not in missed
        same_answers += same
        repeated_answers += asked
    matched = sum(score.matched for score in scores)
    asked_in_training = sum(score.asked for score in scores)
    return PhysicianFigures(
        stages=stages,
        minutes=_median(durations),
        measured=len(durations),
        first_pass=_first_pass(rows),
        calibration=Share(matched, asked_in_training),
        calibrated=len(scores),
        repeat_verdicts=Share(same_verdicts, repeats),
        repeat_answers=Share(same_answers, repeated_answers),
        dots=_dots(physician, minutes),
        weeks=tuple(_week(monday, weeks[monday], minutes) for monday in sorted(weeks)),
    )


def _median(minutes: Sequence[float]) -> float | None:
    if minutes:
        return median(minutes)
    return None


def _week(monday: date, rows: list[Any], minutes: Mapping[int, float]) -> Week:
    durations = [minutes[row.assignment_id] for row in rows if row.assignment_id in minutes]
    return Week(monday, len(rows), _median(durations), _first_pass(rows))


def _first_pass(rows: Iterable[Any]) -> Share:
    alike = counted = 0
    for row in rows:
        if row.case__state in _ENDS and row.case__kind == Case.Kind.WORK:
            counted += 1
            alike += _ENDS[row.case__state] == row.verdict
    return Share(alike, counted)


def _repeats(physician: User, before: datetime) -> QuerySet[Review, tuple[Any, Any]]:
    """(first answers, answers to the repeated case) of the physician's repeats before a moment.

    Without those whose first answers were retracted since.
    """
    again = counted_reviews().filter(
        physician=physician,
        phase=Phase.COMMIT,
        case__kind=Case.Kind.REPEAT,
        case__repeats__in=counted_reviews(),
        submitted_at__lt=before,
    )
    return again.values_list("case__repeats__answers", "answers")


def _dots(physician: User, minutes: Mapping[int, float]) -> tuple[Dot, ...]:
    rows = _answered(physician).filter(assignment__in=list(minutes)).order_by("-id")
    dots = []
    for assignment, spec in rows.values_list("assignment_id", "case__spec")[:MAX_DOTS]:
        dots.append(Dot(count_block_words(spec_from_json(spec).blocks), minutes[assignment]))
    return tuple(dots)


def own_pace(physician: User) -> dict[tuple[str, str], float]:
    """(benchmark, stage) -> median active minutes of a physician's first answer, where measured."""
    minutes = activity.minutes_by_assignment(physician)
    rows = _answered(physician).filter(assignment__in=list(minutes)).order_by("-id")[:MAX_DOTS]
    durations: dict[tuple[str, str], list[float]] = defaultdict(list)
    for assignment, benchmark, role in rows.values_list("assignment_id", "case__benchmark", "role"):
        durations[benchmark, Role(role).stage].append(minutes[assignment])
    return {key: median(values) for key, values in durations.items()}


@dataclass(frozen=True, slots=True)
class MyWeek:
    """A physician's recent active time and share of matching verdicts."""

    spent: timedelta
    agreed: Share


def my_week(physician: User, since: datetime) -> MyWeek:
    """The figures since a moment, for the front page."""
    closed = blind_answers().filter(physician=physician, case__closed_at__gte=since, case__state__in=_ENDS)
    matching = Q(case__state=State.APPROVED, verdict=Verdict.APPROVE) | Q(
        case__state=State.REJECTED, verdict=Verdict.REJECT
    )
    counts = closed.aggregate(part=Count("pk", filter=matching), whole=Count("pk"))
    return MyWeek(activity.active_time(physician, since=since), Share(**counts))
