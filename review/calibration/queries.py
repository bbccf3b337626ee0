"""Calibration cases, how they were answered, and who has passed. Copies never count as work: `Case.kind` keeps them apart."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, Q, QuerySet

from review import errors
from review.common import sql
from review.models import Assignment, CalibrationItem, Case, Review, User
from review.rules.case_spec import answers_from_json
from review.rules.questions import Answer, Answers, RubricAnswer, decided_finding
from review.rules.state_machine import Ground, Phase, State, Verdict

PASS_SHARE = 0.8  # of the expected answers
PASS_ITEMS = 5  # the last so many calibration cases count


@dataclass(frozen=True, slots=True)
class Score:
    """How one calibration case was answered: `matched` of `asked` expected answers."""

    item: CalibrationItem
    review: Review
    matched: int
    asked: int
    missed: tuple[str, ...]  # keys: question.<key>, rubric.<key> and its .severity, verdict

    @property
    def at(self) -> datetime:
        return self.review.submitted_at


@dataclass(frozen=True, slots=True)
class CalibrationStanding:
    """One physician in one benchmark's calibration: the last PASS_ITEMS scores, newest first."""

    benchmark: str
    scores: tuple[Score, ...]
    needed: int  # so many items have to be answered

    @property
    def answered(self) -> int:
        return len(self.scores)

    @property
    def share(self) -> float | None:
        """Of the expected answers, how many were given; None before the first item."""
        asked = sum(score.asked for score in self.scores)
        return sum(score.matched for score in self.scores) / asked if asked else None

    @property
    def percent(self) -> float | None:
        return None if self.share is None else 100 * self.share

    @property
    def passed(self) -> bool:
        return self.share is not None and len(self.scores) >= self.needed and self.share >= PASS_SHARE


def compare(expected: Answers, given: Answers) -> tuple[int, int, tuple[str, ...]]:
    """(matched, asked, missed keys) of the answers that `expected` names; what it leaves blank is not asked."""
    wanted = {"verdict": (expected.verdict, given.verdict)}
    for key, answer in expected.questions.items():
        wanted[f"question.{key}"] = (answer.value, given.questions.get(key, Answer()).value)
    for key, finding in expected.rubrics.items():
        other = given.rubrics.get(key, RubricAnswer())
        wanted[f"rubric.{key}"] = (finding.value, other.value)
        harm, other_harm = decided_finding(finding)[2], decided_finding(other)[2]
        if other_harm:  # a rubric that does not stand has no harm: that difference is counted already
            wanted[f"rubric.{key}.severity"] = (harm, other_harm)
    asked = {key: pair for key, pair in wanted.items() if pair[0]}
    missed = tuple(key for key, (want, got) in asked.items() if want != got)
    return len(asked) - len(missed), len(asked), missed


def scores(physician: User) -> list[Score]:
    """Every calibration case that the physician has answered, newest first."""
    # `reserved_for`: few rows, by index; the physician's reviews may be thousands.
    return _scores(_answers().filter(assignment__reserved_for=physician, physician=physician))


def _answers() -> QuerySet[Review]:
    """The answers to calibration cases that count, newest first."""
    given = Review.objects.filter(case__kind=Case.Kind.CALIBRATION, phase=Phase.COMMIT, retraction__isnull=True)
    return given.select_related("case__item").defer("case__spec", "case__item__spec").order_by("-id")


def _scores(answers: Iterable[Review]) -> list[Score]:
    found = []
    for review in answers:
        item = review.case.item
        if item is not None:
            score = compare(answers_from_json(item.expected), answers_from_json(review.answers))
            found.append(Score(item, review, *score))
    return found


def standings(physician: User) -> list[CalibrationStanding]:
    """The physician's calibration in every benchmark that has one, by name."""
    return _standings(_active(), scores(physician))


def _active() -> Counter[str]:
    """How many items are in use, by benchmark."""
    return Counter(CalibrationItem.objects.filter(active=True).values_list("benchmark", flat=True))


def _standings(active: Counter[str], found: Iterable[Score]) -> list[CalibrationStanding]:
    by_benchmark: dict[str, list[Score]] = defaultdict(list)
    for score in found:
        by_benchmark[score.item.benchmark].append(score)
    return [
        CalibrationStanding(
            benchmark, tuple(by_benchmark[benchmark][:PASS_ITEMS]), min(PASS_ITEMS, active[benchmark] or 1)
        )
        for benchmark in sorted({*active, *by_benchmark})
    ]


def anything_reserved(physician: User) -> bool:
    """Whether an assignment was ever reserved for this person: work by an admin, or a copy for training."""
    return sql.first_row("SELECT 1 FROM review_assignment WHERE reserved_for_id = %s LIMIT 1", physician.pk) is not None


def passed_benchmarks(physician: User) -> list[str]:
    """The benchmarks whose calibration the physician has passed."""
    if not anything_reserved(physician):
        return []  # nothing was ever reserved for this person, so no calibration case either: the most frequent answer
    return [standing.benchmark for standing in standings(physician) if standing.passed]


def up_front(physician: User, benchmark: str) -> bool:
    """Whether calibration comes before work here: cases of the benchmark wait for who has passed, and this one has not."""
    demanded = Assignment.objects.filter(hold=Assignment.Hold.OPEN, calibration=benchmark)
    return demanded.exists() and benchmark not in passed_benchmarks(physician)


def items(*, active: bool | None = None) -> QuerySet[CalibrationItem]:
    """Calibration items, newest first."""
    found = CalibrationItem.objects.order_by("-id")
    return found if active is None else found.filter(active=active)


def answered(rows: QuerySet[CalibrationItem]) -> QuerySet[CalibrationItem]:
    """The same items, each with `copies`: how often it was answered."""
    done = Count("cases", filter=Q(cases__state__in=(State.APPROVED, State.REJECTED)))
    return rows.annotate(copies=done).defer("spec")


@dataclass(frozen=True, slots=True)
class Result:
    """One physician's standing in one benchmark."""

    who: User
    standing: CalibrationStanding


def results() -> list[Result]:
    """Where each physician stands who has answered calibration cases, by name and benchmark."""
    given = _answers().filter(assignment__reserved_for=F("physician")).select_related("physician", "case__item")
    by_physician: dict[int, list[Score]] = defaultdict(list)
    for score in _scores(given):
        by_physician[score.review.physician_id].append(score)
    active = _active()
    return [
        Result(found[0].review.physician, standing)
        for found in sorted(by_physician.values(), key=lambda found: found[0].review.physician.username)
        for standing in _standings(active, found)
        if standing.scores
    ]


def largest_benchmarks() -> list[str]:
    """The benchmarks that have cases, the one with the most first."""
    rows = Case.objects.values("benchmark").annotate(n=Count("pk")).order_by("-n")
    return list(rows.values_list("benchmark", flat=True))


def was_settled(case: Case) -> bool:
    """Whether physicians have brought a case, which is no copy, to its end."""
    ended = case.state in (State.APPROVED, State.REJECTED) and case.ground != Ground.UNREVIEWED
    return ended and case.kind == Case.Kind.WORK


def suggested(case: Case) -> Answers:
    """The answers on which a closed case settled, without words: the last review that says what the case came to.

    Raises:
        NotSettled: the case is open or withdrawn, or a copy, or nobody was to review it.
    """
    if not was_settled(case):
        raise errors.NotSettled
    verdict = Verdict.APPROVE if case.state == State.APPROVED else Verdict.REJECT
    given = Review.objects.filter(case=case, retraction__isnull=True).order_by("-id")
    last = given.filter(verdict=verdict).first() or given.first()
    answers = answers_from_json(last.answers) if last else Answers()
    form = case.frozen.form
    return Answers(
        questions={q.key: Answer(answers.questions.get(q.key, Answer()).value) for q in form.questions},
        rubrics={r.key: RubricAnswer(answers.rubrics.get(r.key, RubricAnswer()).value) for r in form.rubrics},
        verdict=verdict,
    )
