"""Active time: whatever is sent, in whatever order and from however many windows, time that went by once counts once."""

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
from tests.review.factories import account, approving, opened, send, take

pytestmark = pytest.mark.both

MINUTE = timedelta(minutes=1)


def stretch(clock: Clock, began: float, ended: float) -> activity.Stretch:
    """From `began` to `ended` minutes before now."""
    return clock.now - began * MINUTE, clock.now - ended * MINUTE


@pytest.fixture
def held(ana: User, clock: Clock) -> Assignment:
    """Ana's case, claimed 60 minutes ago."""
    opened()
    assignment = take(ana)
    clock.advance(minutes=60)
    return assignment


def minutes(physician: User) -> float:
    return activity.active_time(physician) / MINUTE


def test_a_stretch_is_kept_and_grows(ana: User, held: Assignment, clock: Clock) -> None:
    assert activity.record_stretches(ana, held.pk, [stretch(clock, 30, 20)]) == 10 * MINUTE
    assert activity.record_stretches(ana, held.pk, [stretch(clock, 30, 15)]) == 5 * MINUTE
    assert activity.record_stretches(ana, held.pk, [stretch(clock, 30, 15)]) == timedelta()
    assert ActiveInterval.objects.count() == 1
    assert activity.minutes_by_assignment(ana) == {held.pk: 15}


def test_what_cannot_have_been_is_cut_off(ana: User, held: Assignment, clock: Clock) -> None:
    activity.record_stretches(ana, held.pk, [stretch(clock, 90, 55), stretch(clock, 5, -30), stretch(clock, -10, -20)])
    assert minutes(ana) == 5 + 5
    assert activity.record_stretches(ana, held.pk, [stretch(clock, 10, 20)]) == timedelta()


def test_two_windows_count_once_also_on_two_cases(ana: User, held: Assignment, clock: Clock) -> None:
    activity.record_stretches(ana, held.pk, [stretch(clock, 20, 10)])
    send(held, approving())
    opened(2)
    other = take(ana)
    Assignment.objects.filter(pk=other.pk).update(opened_at=clock.now - 60 * MINUTE)
    clock.advance(minutes=30)
    activity.record_stretches(ana, other.pk, [stretch(clock, 30, 10)])
    activity.record_stretches(ana, held.pk, [stretch(clock, 25, 5)])
    assert minutes(ana) == 10 + 20 + 5
    assert activity.minutes_by_assignment(ana) == {held.pk: 15, other.pk: 20}


def test_only_who_has_or_had_the_case(ana: User, bo: User, adela: User, held: Assignment, clock: Clock) -> None:
    now = [stretch(clock, 2, 1)]
    with pytest.raises(errors.NotYours):
        activity.record_stretches(bo, held.pk, now)
    with pytest.raises(errors.NotYours):
        activity.record_stretches(ana, held.pk + 1, now)
    with pytest.raises(errors.NotAllowed):
        activity.record_stretches(adela, held.pk, now)
    assert held.token is not None
    send(held, approving())
    assert activity.record_stretches(ana, held.pk, now) == MINUTE  # the page's last message comes after the submission


def test_time_on_a_case_that_was_given_back_is_kept(ana: User, held: Assignment, clock: Clock) -> None:
    assert held.token is not None
    claims.release(ana, held.pk, held.token)
    assert activity.record_stretches(ana, held.pk, [stretch(clock, 9, 7)]) == 2 * MINUTE


SENT = st.lists(st.lists(st.tuples(st.integers(-10, 80), st.integers(-10, 80)), max_size=3), min_size=1, max_size=4)


class AnyOrder(TestCase):
    """A property over messages: each a list of (began, ended) in minutes after a moment 10 minutes before the claim."""

    @settings(max_examples=40, deadline=None)
    @given(SENT, st.lists(st.booleans(), min_size=6, max_size=6))
    def test_rows_never_overlap_and_hold_what_was_sent(
        self, messages: list[list[tuple[int, int]]], which: list[bool]
    ) -> None:
        monkeypatch = pytest.MonkeyPatch()
        clock = Clock()
        monkeypatch.setattr("django.utils.timezone.now", clock)
        try:
            ana = account("ana")
            opened(1)
            first = take(ana)
            send(first, approving())
            opened(2)
            second = take(ana)
            claimed = clock.now
            clock.advance(minutes=60)
            expected: set[int] = set()  # whole minutes after the claim
            for message, other in [*zip(messages, which, strict=False)] * 2:
                for began, ended in message:
                    expected |= set(range(max(0, began), min(60, ended)))
                sent = [(claimed + began * MINUTE, claimed + ended * MINUTE) for began, ended in message]
                activity.record_stretches(ana, (second if other else first).pk, sent)
            rows = list(ActiveInterval.objects.order_by("began_at"))
            assert all(one.ended_at <= next_.began_at for one, next_ in pairwise(rows))
            assert activity.active_time(ana) == len(expected) * MINUTE
        finally:
            monkeypatch.undo()


# The page's message ---------------------------------------------------------------------------------------------------


def post(client: Client, assignment: Assignment, stretches: object) -> int:
    sent = stretches if isinstance(stretches, str) else json.dumps(stretches)
    return client.post(reverse("review:activity", args=[assignment.pk]), {"stretches": sent}).status_code


def test_the_page_sends_milliseconds(client: Client, ana: User, bo: User, held: Assignment, clock: Clock) -> None:
    client.force_login(ana)
    now = clock.now.timestamp() * 1000
    assert post(client, held, [[now - 120_000, now - 60_000]]) == 204
    assert minutes(ana) == pytest.approx(1)
    assert client.get(reverse("review:activity", args=[held.pk])).status_code == 405
    client.force_login(bo)
    assert post(client, held, [[now - 120_000, now - 60_000]]) == 404


@pytest.mark.parametrize(
    "rubbish",
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
def test_rubbish_is_left_out(client: Client, ana: User, held: Assignment, rubbish: str) -> None:
    client.force_login(ana)
    assert post(client, held, rubbish) == 204
    assert not ActiveInterval.objects.exists()


def test_the_case_page_measures(client: Client, ana: User, held: Assignment) -> None:
    client.force_login(ana)
    page: Any = client.get(reverse("review:case", args=[held.pk]))
    said = page.content.decode()
    assert f'data-activity="{reverse("review:activity", args=[held.pk])}"' in said
    assert 'data-allowance="60"' in said
    assert "mhb/js/activity.js" in said


# Length ---------------------------------------------------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("Don't take 12.5 mg!", 5), ("高血压患者", 2.5), ("服用 aspirin 吗？", 2.5), ("well-known drug", 2)],
)
def test_words(text: str, expected: float) -> None:
    assert count_words(text) == expected


@pytest.mark.plain
def test_length_counts_every_kind_of_block() -> None:
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
def test_the_allowance_is_the_time_to_read_it_all(count: int, seconds: int) -> None:
    assert allowance((Text("T", "word " * count),)) == seconds
