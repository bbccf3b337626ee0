"""Signs that a physician does not read what they judge, for admins alone.

Each sign is a rule that careful work breaks only by chance: answers given faster than anybody can
read the case, the same answers or verdict to every case where colleagues differ, and other
verdicts on a case that came back unannounced. They are reasons to look, not proof.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from itertools import chain
from statistics import median
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery
from django.utils import timezone

from review.access.visibility import CLAIMS, counted_reviews
from review.common.figures import figure
from review.models import Case, Event, Review, User
from review.rules.case_spec import spec_from_json
from review.rules.reading_time import WORDS_PER_MINUTE, count_block_words
from review.rules.state_machine import Phase

PERIOD = timedelta(days=28)
MIN_SECONDS = 3.0  # nobody reads, judges and submits any case in less
FASTEST_READER = 4  # times as fast as an unhurried one, more than anybody who understands the text
MAX_HASTY_SECONDS = 120.0  # longer is never called too fast, however long the text
MIN_HASTY, MIN_HASTY_SHARE = 5, 0.2  # cases, and their share of all
MIN_ALIKE, ALIKE, COLLEAGUES_ALIKE = 20, 0.95, 0.8  # cases, own share, most of colleagues (median)
MIN_REPEATS, MISSED_REPEATS = 3, 1 / 3


@dataclass(frozen=True, slots=True)
class Care:
    """How one physician worked in the last four weeks, in `cases` cases.

    hasty: cases answered faster than anybody can read them; seconds: the median of these.
    same_answers, same_verdict: cases with the physician's most frequent answers and verdict.
    repeats, changed: silent repeats, and those of them with another verdict.
    signs: the figures that are signs of careless work: their names.
    """

    physician: int
    name: str
    cases: int
    hasty: int
    seconds: float
    same_answers: int
    same_verdict: int
    repeats: int
    changed: int
    signs: tuple[str, ...] = ()


Frequent = tuple[tuple[int, float], tuple[int, float]]  # of answers and verdicts: how often, share


@figure(())
def careless_physicians() -> tuple[Care, ...]:
    """The physicians of whom there is any sign, by name.

    Each process caches the result until a review is submitted or retracted.
    """
    about_reviews = Event.objects.filter(kind__in=(Event.Kind.SUBMITTED, Event.Kind.RETRACTED)).order_by("-id")
    return _careless_physicians(about_reviews.values_list("hash", flat=True).first(), timezone.localdate())


def _reviews() -> QuerySet[Review]:
    """First answers of people in the period, without those that were made elsewhere."""
    imported = Event.objects.filter(case=OuterRef("case"), actor=OuterRef("physician"), kind=Event.Kind.IMPORTED)
    since = timezone.now() - PERIOD
    rows = counted_reviews().filter(phase=Phase.COMMIT, submitted_at__gte=since, physician__simulated=False)
    return rows.exclude(Exists(imported)).exclude(case__kind=Case.Kind.CALIBRATION)


@lru_cache(maxsize=2)
def _careless_physicians(_state: str | None, _day: date) -> tuple[Care, ...]:
    claims = Event.objects.filter(
        case=OuterRef("case"), actor=OuterRef("physician"), kind__in=CLAIMS, at__lte=OuterRef("submitted_at")
    )
    rows = _reviews().annotate(began=Subquery(claims.order_by("-id").values("at")[:1]), benchmark=F("case__benchmark"))
    # A first review that was retracted since says nothing of its repeat.
    rows = rows.annotate(repeats_counted=Exists(counted_reviews().filter(pk=OuterRef("case__repeats"))))
    fields = ("pk", "physician", "benchmark", "verdict", "answers", "began", "submitted_at", "repeats_counted")
    by_physician: dict[int, list[Any]] = defaultdict(list)
    for row in rows.order_by("id").values_list(*fields, "case__repeats__verdict", named=True):
        by_physician[row.physician].append(row)
    hasty = _hasty(list(chain.from_iterable(by_physician.values())))
    frequent = {physician: _most_frequent(found) for physician, found in by_physician.items()}
    people = User.objects.in_bulk(by_physician)
    found_signs = []
    for physician, found in sorted(by_physician.items(), key=lambda item: people[item[0]].username):
        others = [frequent[p] for p in frequent if p != physician and len(by_physician[p]) >= MIN_ALIKE]
        repeats = [row for row in found if row.repeats_counted]
        times = sorted(hasty[row.pk] for row in found if row.pk in hasty)
        (answers, _share), (verdict, _share) = frequent[physician]
        care = Care(
            physician,
            str(people[physician]),
            len(found),
            len(times),
            times[len(times) // 2] if times else 0.0,
            answers,
            verdict,
            len(repeats),
            sum(row.case__repeats__verdict != row.verdict for row in repeats),
        )
        found_signs.append(replace(care, signs=tuple(_signs(care, others))))
    return tuple(care for care in found_signs if care.signs)


def _signs(care: Care, others: Sequence[Frequent]) -> Iterator[str]:
    if care.hasty >= max(MIN_HASTY, MIN_HASTY_SHARE * care.cases):
        yield "hasty"
    for number, name in enumerate(("same_answers", "same_verdict")):
        is_alike = care.cases >= MIN_ALIKE and getattr(care, name) >= ALIKE * care.cases
        # Samples may all be good: only where colleagues answer differently does it say something.
        if is_alike and others and median(one[number][1] for one in others) <= COLLEAGUES_ALIKE:
            yield name
    if care.repeats >= MIN_REPEATS and care.changed >= MISSED_REPEATS * care.repeats:
        yield "changed"


def _most_frequent(rows: Sequence[Any]) -> Frequent:
    """(how often, share) of the most frequent answers and of the most frequent verdict."""
    answers = Counter((row.benchmark, _decisions(row.answers)) for row in rows).most_common(1)[0][1]
    verdict = Counter(row.verdict for row in rows).most_common(1)[0][1]
    return (answers, answers / len(rows)), (verdict, verdict / len(rows))


def _decisions(answers: Mapping[str, Any]) -> str:
    """What was chosen, without texts and sources; of rubrics only the findings that occur."""
    chosen = sorted((key, answer["value"]) for key, answer in answers["questions"].items())
    return repr((chosen, sorted({rubric["value"] for rubric in answers["rubrics"].values()}), answers["verdict"]))


def _hasty(rows: Iterable[Any]) -> dict[int, float]:
    """The seconds that reviews took, of those that were too fast for their case."""
    taken = {row.pk: (row.submitted_at - row.began).total_seconds() for row in rows if row.began}
    quick = {pk: seconds for pk, seconds in taken.items() if seconds < MAX_HASTY_SECONDS}
    specs = Review.objects.filter(pk__in=quick).values_list("pk", "case__spec").iterator(chunk_size=100)
    return {pk: quick[pk] for pk, spec in specs if quick[pk] < fastest(count_block_words(spec_from_json(spec).blocks))}


def fastest(words: float) -> float:
    """The seconds below which nobody can have read a case of `words` words and judged it."""
    return max(MIN_SECONDS, words / (FASTEST_READER * WORDS_PER_MINUTE) * 60)
