"""Training: cases with a known answer, and silent repeats of own ones. Copies never count as work: `Case.kind` parts them.

A copy is one case for one physician, with one assignment reserved for that person, decided by that person's word alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from review import errors, sql
from review.machine import FINAL, Ground, Phase, Role, State, Verdict
from review.models import Assignment, CalibrationItem, Case, Event, PersonEvent, Review, User
from review.permissions import Can, require
from review.questions import Answer, Answers, RubricAnswer
from review.spec import answers_from_json, answers_to_json
from review.trail import record, record_person, recorded

PASS_SHARE = 0.8  # of the expected answers
PASS_ITEMS = 5  # the last so many calibration cases count
REPEAT_AFTER = timedelta(days=7)  # sooner, the case is remembered

ALONE = {
    "secondary": False,
    "inadequate_rejects": False,
    "fresh_eyes_required": False,
    "other_hospital": False,
    "calibrated_only": False,
}


@dataclass(frozen=True, slots=True)
class Score:
    """How one calibration case was answered: `matched` of `asked` expected answers."""

    item: CalibrationItem
    review: Review
    matched: int
    asked: int
    missed: tuple[str, ...]  # keys: question.<key>, rubric.<key>, verdict

    @property
    def at(self) -> datetime:
        return self.review.submitted_at


@dataclass(frozen=True, slots=True)
class Standing:
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


# ------------------------------------------------------------------------------------------------------------ reading


def compare(expected: Answers, given: Answers) -> tuple[int, int, tuple[str, ...]]:
    """(matched, asked, missed keys) of the answers that `expected` names; what it leaves blank is not asked."""
    wanted = {"verdict": (expected.verdict, given.verdict)}
    for key, answer in expected.questions.items():
        wanted[f"question.{key}"] = (answer.value, given.questions.get(key, Answer()).value)
    for key, finding in expected.rubrics.items():
        wanted[f"rubric.{key}"] = (finding.value, given.rubrics.get(key, RubricAnswer()).value)
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


def standings(physician: User) -> list[Standing]:
    """The physician's calibration in every benchmark that has one, by name."""
    return _standings(_active(), scores(physician))


def _active() -> Counter[str]:
    """How many items are in use, by benchmark."""
    return Counter(CalibrationItem.objects.filter(active=True).values_list("benchmark", flat=True))


def _standings(active: Counter[str], found: Iterable[Score]) -> list[Standing]:
    by_benchmark: dict[str, list[Score]] = defaultdict(list)
    for score in found:
        by_benchmark[score.item.benchmark].append(score)
    return [
        Standing(benchmark, tuple(by_benchmark[benchmark][:PASS_ITEMS]), min(PASS_ITEMS, active[benchmark] or 1))
        for benchmark in sorted({*active, *by_benchmark})
    ]


def anything_reserved(physician: User) -> bool:
    """Whether an assignment was ever reserved for this person: work by an admin, or a copy for training."""
    return sql.first("SELECT 1 FROM review_assignment WHERE reserved_for_id = %s LIMIT 1", physician.pk) is not None


def passed(physician: User) -> list[str]:
    """The benchmarks whose calibration the physician has passed."""
    if not anything_reserved(physician):
        return []  # nothing was ever reserved for this person, so no calibration case either: the most frequent answer
    return [standing.benchmark for standing in standings(physician) if standing.passed]


def up_front(physician: User, benchmark: str) -> bool:
    """Whether calibration comes before work here: cases of the benchmark wait for who has passed, and this one has not."""
    demanded = Assignment.objects.filter(hold=Assignment.Hold.OPEN, calibration=benchmark)
    return demanded.exists() and benchmark not in passed(physician)


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
    standing: Standing


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


# ------------------------------------------------------------------------------------------------------------ writing


@recorded()
def make_item(case: Case, expected: Answers, *, actor: User, title: str = "") -> CalibrationItem:
    """A calibration item out of a closed case. Raises NotSettled for any other."""
    require(actor, Can.OVERSEE)
    suggested(case)
    item = CalibrationItem.objects.create(
        benchmark=case.benchmark,
        title=(title or case.title)[:300],
        spec=case.spec,
        expected=answers_to_json(expected),
        created_at=timezone.now(),
    )
    said = {"item": item.pk, "title": item.title, "case": case.pk, "expected": item.expected}
    record_person(actor, PersonEvent.Kind.ITEM_MADE, actor, **said)
    return item


@recorded()
def change_item(
    item: CalibrationItem, *, actor: User, expected: Answers | None = None, active: bool | None = None
) -> None:
    """Put other answers as the known ones, or take the item out of use and back in. Scores are reckoned anew from it."""
    require(actor, Can.OVERSEE)
    before = CalibrationItem.objects.select_for_update().defer("spec").get(pk=item.pk)
    item.expected = before.expected if expected is None else answers_to_json(expected)
    item.active = before.active if active is None else active
    item.save(update_fields=["expected", "active"])
    both = {"expected": (before.expected, item.expected), "active": (before.active, item.active)}
    changed = {name: {"from": old, "to": new} for name, (old, new) in both.items() if old != new}
    if changed:
        # The trail of the admin who did it: the item is no account and no case of its own.
        said = {"item": item.pk, "title": item.title, "changed": changed}
        record_person(actor, PersonEvent.Kind.ITEM_CHANGED, actor, **said)


@recorded()
def give_again(physician: User, *, actor: User) -> int:
    """Offer every active calibration item to a physician anew; returns how many. Ones that still wait are left alone."""
    require(actor, Can.OVERSEE)
    physician = User.objects.select_for_update(no_key=True).get(
        pk=physician.pk
    )  # one at a time, and never during a claim
    waiting = Case.objects.filter(assignments__reserved_for=physician, kind=Case.Kind.CALIBRATION).exclude(
        state__in=FINAL
    )
    new = [item for item in items(active=True).exclude(pk__in=waiting.values("item")) if _fits(physician, item.spec)]
    for item in reversed(new):
        _calibrate(physician, item)
    record_person(physician, PersonEvent.Kind.CALIBRATION, actor, items=len(new))
    return len(new)


def prepare(physician: User) -> None:
    """Put the copy that is due before the physician, if any: up front, mixed in, or a repeat. Wants the claim's transaction.

    What is drawn follows from the account and from how many answers it has given: pressing again draws nothing else.
    """
    unfinished = Assignment.objects.filter(reserved_for=physician, hold=Assignment.Hold.OPEN).exclude(
        case__kind=Case.Kind.WORK
    )
    calibrates = sql.first("SELECT 1 FROM review_calibrationitem WHERE active LIMIT 1") is not None
    repeats = settings.MHB_REPEAT_SHARE > 0
    # A copy looks like a first review: mixed in, it would stand out for who never gets one.
    silently = not physician.stages or State.PRIMARY in physician.stages
    if not (calibrates or repeats) or unfinished.exists():
        return
    if calibrates:
        fresh = _unanswered(physician)
        first = next((item for item in fresh if up_front(physician, item.benchmark)), None)
        if first is None and fresh and silently and _drawn(physician, "calibration", settings.MHB_CALIBRATION_SHARE):
            first = fresh[0]
        if first is not None:
            _calibrate(physician, first)
            return
    if repeats and silently and _drawn(physician, "repeat", settings.MHB_REPEAT_SHARE):
        _repeat(physician)


def _unanswered(physician: User) -> list[CalibrationItem]:
    """Active items of which the physician had no copy, and whose sample is new to this person; the oldest first."""
    had = Case.objects.filter(item=OuterRef("pk"), assignments__reserved_for=physician)
    known = set(
        Review.objects.filter(
            physician=physician, case__kind=Case.Kind.WORK, case__lineage__in=_lineages(items(active=True))
        ).values_list("case__lineage", flat=True)
    )
    rows = items(active=True).filter(~Exists(had)).order_by("id")
    return [item for item in rows if item.spec["lineage"] not in known and _fits(physician, item.spec)]


def _lineages(rows: QuerySet[CalibrationItem]) -> list[str]:
    return list(rows.values_list("spec__lineage", flat=True))


def _fits(physician: User, spec: Mapping[str, Any]) -> bool:
    language = str(spec.get("language", "")).partition("-")[0].lower()
    specialty = str(spec.get("specialty", "")).strip().casefold()
    own = physician.specialty.strip().casefold()
    return (not language or not physician.languages or language in physician.languages) and (
        not specialty or not own or specialty == own
    )


def _drawn(physician: User, what: str, share: float) -> bool:
    if share <= 0:
        return False
    given = Review.objects.filter(physician=physician).count()
    digest = sha256(f"{what}/{physician.pk}/{given}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def _calibrate(physician: User, item: CalibrationItem) -> None:
    again = Case.objects.filter(item=item, assignments__reserved_for=physician).count()
    lineage = f"calibration:{item.pk}:{physician.pk}" + (f":{again}" if again else "")
    _copy(physician, item.spec, kind=Case.Kind.CALIBRATION, lineage=lineage, item=item)


def _repeat(physician: User) -> None:
    """A copy of an own case that closed long enough ago; one of those answered first among the ones not repeated yet."""
    old = Review.objects.filter(
        physician=physician,
        phase=Phase.COMMIT,
        retraction__isnull=True,
        repeated_as__isnull=True,
        case__kind=Case.Kind.WORK,
        case__closed_at__lt=timezone.now() - REPEAT_AFTER,
    )
    review = old.select_related("case").order_by("id").first()
    if review is not None:
        _copy(physician, review.case.spec, kind=Case.Kind.REPEAT, lineage=f"repeat:{review.pk}", repeats=review)


def _copy(physician: User, spec: dict[str, Any], *, kind: Case.Kind, lineage: str, **origin: Any) -> None:
    """A case of the physician's own. The spec keeps the sample's name and version: a copy looks like any other case."""
    now = timezone.now()
    case = Case.objects.create(
        kind=kind,
        benchmark=spec["benchmark"],
        lineage=lineage,
        version=spec["version"],
        title=spec["title"][:300],
        language=spec["language"],
        specialty=spec.get("specialty", ""),
        spec={**spec, "policy": {**spec["policy"], **ALONE}},
        simulated=spec["simulated"],
        opened_at=now,
        **origin,
    )
    Assignment.objects.create(case=case, role=Role.PRIMARY, reserved_for=physician, opened_at=now)
    record(case, Event.Kind.OPENED, None)
