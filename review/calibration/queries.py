"""Calibration items, how they were answered, and who has passed.

The copies that physicians answer never count as work: `Case.kind` tells them apart.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, QuerySet

from review import errors
from review.models import Assignment, CalibrationItem, Case, Review, User
from review.rules.case_spec import answers_from_json
from review.rules.questions import Answer, Answers, RubricAnswer, finding_decision
from review.rules.shown_fields import Hidden, shown
from review.rules.state_machine import Ground, Phase, State, Verdict

PASS_SHARE = 0.8  # share of the expected answers needed to pass
PASS_ITEMS = 5  # number of latest calibration items that count


@dataclass(frozen=True, slots=True)
class CalibrationScore:
    """How one calibration item was answered: `matched` of `asked` expected answers."""

    item: CalibrationItem
    review: Review
    matched: int
    asked: int
    missed: tuple[str, ...]  # question.<key>, rubric.<key>, rubric.<key>.severity, verdict

    @property
    def at(self) -> datetime:
        return self.review.submitted_at


@dataclass(frozen=True, slots=True)
class CalibrationStanding:
    """A physician's calibration in one benchmark: the last PASS_ITEMS scores, newest first."""

    benchmark: str
    scores: Hidden[tuple[CalibrationScore, ...]]
    needed: int  # number of items that must be answered

    @property
    @shown
    def answered(self) -> int:
        return len(self.scores)

    @property
    @shown
    def share(self) -> float | None:
        """The share of expected answers that were given; None before the first item."""
        asked = sum(score.asked for score in self.scores)
        if asked:
            return sum(score.matched for score in self.scores) / asked
        return None

    @property
    def percent(self) -> float | None:
        if self.share is None:
            return None
        return 100 * self.share

    @property
    @shown
    def passed(self) -> bool:
        return self.share is not None and len(self.scores) >= self.needed and self.share >= PASS_SHARE


def match_answers(expected: Answers, given: Answers) -> tuple[int, int, tuple[str, ...]]:
    """Compare given with expected answers; blank expected answers are not scored.

    Returns: number of matches, number of answers scored, keys that did not match.
    """
    pairs = {"verdict": (expected.verdict, given.verdict)}
    for key, answer in expected.questions.items():
        pairs[f"question.{key}"] = (answer.value, given.answer(key).value)
    for key, finding in expected.rubrics.items():
        other = given.finding(key)
        pairs[f"rubric.{key}"] = (finding.value, other.value)
        harm, other_harm = finding_decision(finding)[2], finding_decision(other)[2]
        if other_harm:  # a rejected rubric has no harm, and that difference is counted above
            pairs[f"rubric.{key}.severity"] = (harm, other_harm)
    scored = {key: pair for key, pair in pairs.items() if pair[0]}
    missed = tuple(key for key, (expected_value, value) in scored.items() if expected_value != value)
    return len(scored) - len(missed), len(scored), missed


def scores(physician: User) -> list[CalibrationScore]:
    """The scores of all calibration items that the physician has answered, newest first."""
    # `reserved_for` finds few rows by index, while the physician may have thousands of reviews.
    return _scores(_reviews().filter(assignment__reserved_for=physician, physician=physician))


def _reviews() -> QuerySet[Review]:
    """The reviews of calibration cases that count, newest first."""
    reviews = Review.objects.filter(case__kind=Case.Kind.CALIBRATION, phase=Phase.COMMIT, retraction__isnull=True)
    return reviews.select_related("case__item").defer("case__spec", "case__item__spec").order_by("-id")


def _scores(reviews: Iterable[Review]) -> list[CalibrationScore]:
    scores = []
    for review in reviews:
        item = review.case.item
        if item is not None:
            matches = match_answers(answers_from_json(item.expected), answers_from_json(review.answers))
            scores.append(CalibrationScore(item, review, *matches))
    return scores


def standings(physician: User) -> list[CalibrationStanding]:
    """The physician's calibration in every benchmark that has items, ordered by benchmark."""
    return _standings(_active(), scores(physician))


def _active() -> Counter[str]:
    """The number of active items, by benchmark."""
    return Counter(CalibrationItem.objects.filter(active=True).values_list("benchmark", flat=True))


def _standings(active: Counter[str], scores: Iterable[CalibrationScore]) -> list[CalibrationStanding]:
    by_benchmark: dict[str, list[CalibrationScore]] = defaultdict(list)
    for score in scores:
        by_benchmark[score.item.benchmark].append(score)
    found = []
    for benchmark in sorted({*active, *by_benchmark}):
        most = min(PASS_ITEMS, active[benchmark] or 1)
        found.append(CalibrationStanding(benchmark, tuple(by_benchmark[benchmark][:PASS_ITEMS]), most))
    return found


def passed_benchmarks(physician: User) -> list[str]:
    """The benchmarks whose calibration the physician has passed."""
    if not Assignment.objects.filter(reserved_for=physician).exists():
        return []  # as their copy of a calibration case would be
    answered = scores(physician)
    if answered:
        return [standing.benchmark for standing in _standings(_active(), answered) if standing.passed]
    return []


def training_comes_first(physician: User, benchmark: str) -> bool:
    """Whether the physician gets calibration cases of the benchmark before work.

    That is so if open cases of the benchmark require a passed calibration and this physician has
    not passed it.
    """
    restricted = Assignment.objects.filter(hold=Assignment.Hold.OPEN, calibration=benchmark)
    return restricted.exists() and benchmark not in passed_benchmarks(physician)


def items(*, active: bool | None = None) -> QuerySet[CalibrationItem]:
    """Calibration items, newest first."""
    rows = CalibrationItem.objects.order_by("-id")
    if active is None:
        return rows
    return rows.filter(active=active)


def results() -> list[tuple[User, CalibrationStanding]]:
    """The standings of all physicians who have answered calibration cases, ordered by name."""
    reviews = _reviews().filter(assignment__reserved_for=F("physician")).select_related("physician", "case__item")
    by_physician: dict[int, list[CalibrationScore]] = defaultdict(list)
    for score in _scores(reviews):
        by_physician[score.review.physician_id].append(score)
    active = _active()
    found = []
    for scores in sorted(by_physician.values(), key=lambda scores: scores[0].review.physician.username):
        for standing in _standings(active, scores):
            if standing.scores:
                found.append((scores[0].review.physician, standing))
    return found


def was_settled(case: Case) -> bool:
    """Whether physicians approved or rejected the case. Copies never count."""
    reviewed = case.state in (State.APPROVED, State.REJECTED) and case.ground != Ground.UNREVIEWED
    return reviewed and case.kind == Case.Kind.WORK


def suggested_answers(case: Case) -> Answers:
    """Expected answers suggested by a closed case.

    They are the values of its last review with the final verdict.

    Raises:
        NotSettled: the case is open, withdrawn, a copy, or was not sampled for review.
    """
    if not was_settled(case):
        raise errors.NotSettled
    if case.state == State.APPROVED:
        verdict = Verdict.APPROVE
    else:
        verdict = Verdict.REJECT
    reviews = Review.objects.filter(case=case, retraction__isnull=True).order_by("-id")
    last = reviews.filter(verdict=verdict).first() or reviews.first()
    if last:
        answers = answers_from_json(last.answers)
    else:
        answers = Answers()
    questions, rubrics = {}, {}
    for question in case.frozen.form.questions:
        questions[question.key] = Answer(answers.answer(question.key).value)
    for rubric in case.frozen.form.rubrics:
        rubrics[rubric.key] = RubricAnswer(answers.finding(rubric.key).value)
    return Answers(questions=questions, rubrics=rubrics, verdict=verdict)
