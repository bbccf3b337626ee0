"""Active time: no minute counts twice, in any order and from any number of windows."""

import json
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from review import errors
from review.assignments import claims
from review.models import ActiveInterval, Assignment, User
from review.quality import activity
from review.rules.blocks import Dialogue, Diff, Image, Table, Text, Turn
from review.rules.reading_time import allowance, count_block_words, count_words
from tests.conftest import Clock
from tests.review.factories import account, approval, claim, open_case, submit

pytestmark = pytest.mark.both

MINUTE = timedelta(minutes=1)


def stretch(clock: Clock, start: float, end: float) -> activity.Stretch:
    """From `start` to `end` minutes before now."""
    return clock.now - start * MINUTE, clock.now - end * MINUTE


@pytest.fixture
def assignment(ana: User, clock: Clock) -> Assignment:
    """Ana's case, claimed 60 minutes ago."""
    open_case()
    assignment = claim(ana)
    clock.advance(minutes=60)
    return assignment


def minutes(physician: User) -> float:
    return activity.active_time(physician) / MINUTE


def test_a_stretch_is_stored_and_can_be_extended(ana: User, assignment: Assignment, clock: Clock) -> None:
    assert activity.record_stretches(ana, assignment.pk, [stretch(clock, 30, 20)]) == 10 * MINUTE
    assert activity.record_stretches(ana, assignment.pk, [stretch(clock, 30, 15)]) == 5 * MINUTE
    assert activity.record_stretches(ana, assignment.pk, [stretch(clock, 30, 15)]) == timedelta()
    assert ActiveInterval.objects.count() == 1
    assert activity.minutes_by_assignment(ana) == {assignment.pk: 15}


def test_time_before_the_claim_and_in_the_future_is_cut_off(ana: User, assignment: Assignment, clock: Clock) -> None:
    activity.record_stretches(
        ana, assignment.pk, [stretch(clock, 90, 55), stretch(clock, 5, -30), stretch(clock, -10, -20)]
    )
    assert minutes(ana) == 5 + 5
    assert activity.record_stretches(ana, assignment.pk, [stretch(clock, 10, 20)]) == timedelta()


def test_overlapping_time_counts_once_even_on_two_cases(ana: User, assignment: Assignment, clock: Clock) -> None:
    activity.record_stretches(ana, assignment.pk, [stretch(clock, 20, 10)])
    submit(assignment, approval())
    open_case(2)
    other = claim(ana)
    Assignment.objects.filter(pk=other.pk).update(opened_at=clock.now - 60 * MINUTE)
    clock.advance(minutes=30)
    activity.record_stretches(ana, other.pk, [stretch(clock, 30, 10)])
    activity.record_stretches(ana, assignment.pk, [stretch(clock, 25, 5)])
    assert minutes(ana) == 10 + 20 + 5
    assert activity.minutes_by_assignment(ana) == {assignment.pk: 15, other.pk: 20}


def test_only_present_and_former_holders_can_record_time(
    ana: User, bo: User, adela: User, assignment: Assignment, clock: Clock
) -> None:
    now = [stretch(clock, 2, 1)]
    with pytest.raises(errors.NotAssigned):
        activity.record_stretches(bo, assignment.pk, now)
    with pytest.raises(errors.NotAssigned):
        activity.record_stretches(ana, assignment.pk + 1, now)
    with pytest.raises(errors.NotAllowed):
        activity.record_stretches(adela, assignment.pk, now)
    assert assignment.token is not None
    submit(assignment, approval())
    # The page's last message arrives after the submission.
    assert activity.record_stretches(ana, assignment.pk, now) == MINUTE


def test_time_on_a_released_case_is_kept(ana: User, assignment: Assignment, clock: Clock) -> None:
    assert assignment.token is not None
    claims.release(ana, assignment.pk, assignment.token)
    assert activity.record_stretches(ana, assignment.pk, [stretch(clock, 9, 7)]) == 2 * MINUTE


MESSAGES = st.lists(st.lists(st.tuples(st.integers(-10, 80), st.integers(-10, 80)), max_size=3), min_size=1, max_size=4)


@pytest.mark.django_db
class AnyOrder(TestCase):
    """A property over messages, each a list of (start, end) in minutes after the claim."""

    @settings(max_examples=40, deadline=None)
    @given(MESSAGES, st.lists(st.booleans(), min_size=6, max_size=6))
    def test_rows_never_overlap_and_cover_exactly_the_sent_time(
        self, messages: list[list[tuple[int, int]]], on_second_case: list[bool]
    ) -> None:
        monkeypatch = pytest.MonkeyPatch()
        clock = Clock()
        monkeypatch.setattr("django.utils.timezone.now", clock)
        try:
            ana = account("ana")
            open_case(1)
            first = claim(ana)
            submit(first, approval())
            open_case(2)
            second = claim(ana)
            claimed = clock.now
            clock.advance(minutes=60)
            expected: set[int] = set()  # whole minutes after the claim
            for message, is_second in [*zip(messages, on_second_case, strict=False)] * 2:
                for start, end in message:
                    expected |= set(range(max(0, start), min(60, end)))
                sent = [(claimed + start * MINUTE, claimed + end * MINUTE) for start, end in message]
                activity.record_stretches(ana, (second if is_second else first).pk, sent)
            rows = list(ActiveInterval.objects.order_by("began_at"))
            assert all(earlier.ended_at <= later.began_at for earlier, later in pairwise(rows))
            assert activity.active_time(ana) == len(expected) * MINUTE
        finally:
            monkeypatch.undo()


# Requests of the page
# --------------------------------------------------------------------------------------------------


def post(client: Client, assignment: Assignment, stretches: object) -> int:
    data = stretches if isinstance(stretches, str) else json.dumps(stretches)
    return client.post(reverse("review:activity", args=[assignment.pk]), {"stretches": data}).status_code


def test_the_page_sends_times_in_milliseconds(
    client: Client, ana: User, bo: User, assignment: Assignment, clock: Clock
) -> None:
    client.force_login(ana)
    now = clock.now.timestamp() * 1000
    assert post(client, assignment, [[now - 120_000, now - 60_000]]) == 204
    assert minutes(ana) == pytest.approx(1)
    assert client.get(reverse("review:activity", args=[assignment.pk])).status_code == 405
    client.force_login(bo)
    assert post(client, assignment, [[now - 120_000, now - 60_000]]) == 404


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "null",
        "{}",
        "[1]",
        '[["a", "b"]]',
        "[[1]]",
        "[[2, 1]]",
        "[[1e400, 1e999]]",
        "[[NaN, 5]]",
        "[" * 100_000,
    ],
)
def test_invalid_data_are_ignored(client: Client, ana: User, assignment: Assignment, data: str) -> None:
    client.force_login(ana)
    assert post(client, assignment, data) == 204
    assert not ActiveInterval.objects.exists()


def test_the_case_page_loads_the_activity_script(client: Client, ana: User, assignment: Assignment) -> None:
    client.force_login(ana)
    page: Any = client.get(reverse("review:case", args=[assignment.pk]))
    html = page.content.decode()
    assert f'data-activity="{reverse("review:activity", args=[assignment.pk])}"' in html
    assert 'data-allowance="60"' in html
    assert "mhb/js/activity.js" in html


# Reading time
# --------------------------------------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("Don't take 12.5 mg!", 5), ("高血压患者", 2.5), ("服用 aspirin 吗？", 2.5), ("well-known drug", 2)],
)
def test_words_are_counted_in_latin_and_chinese_text(text: str, expected: float) -> None:
    assert count_words(text) == expected


@pytest.mark.plain
def test_the_word_count_covers_every_kind_of_block() -> None:
    turns = (Turn("user", "one two"), Turn("assistant", "three"))
    blocks = (
        Text("T", "one two three"),
        Dialogue("D", turns),
        Diff("B", turns, (*turns, Turn("user", "four"))),
        Table("A", ("x",), (("one", "two three"),)),
        Image("I", "data:image/png;base64,", "a picture"),
    )
    assert count_block_words(blocks) == 3 + 3 + 4 + 3


@pytest.mark.plain
@pytest.mark.parametrize(("count", "seconds"), [(0, 60), (150, 60), (1000, 300), (1500, 450), (9000, 600)])
def test_the_allowance_is_the_reading_time_within_its_limits(count: int, seconds: int) -> None:
    assert allowance((Text("T", "word " * count),)) == seconds
