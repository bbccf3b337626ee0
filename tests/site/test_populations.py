"""A population is made once, each test finds it as it was made, and no other test finds it."""

import pytest

from review.models import User
from tests.populations import population
from tests.review.factories import account

MADE: list[str] = []


@population
def somebody() -> User:
    MADE.append("somebody")
    return account("somebody")


@population
def two() -> list[User]:
    return [account("one"), account("two")]


@pytest.mark.parametrize("time", ["the first", "the second"])
def test_what_a_test_does_is_undone(somebody: User, time: str) -> None:
    assert [user.first_name for user in User.objects.all()] == [somebody.first_name] == [""]
    somebody.first_name = time
    somebody.save()
    account("another")
    assert MADE == ["somebody"]


def test_another_population_takes_its_place(two: list[User]) -> None:
    assert {*User.objects.all()} == {*two}


def test_who_asks_for_none_finds_nobody(db: None) -> None:
    assert not User.objects.exists()


def test_who_commits_finds_nobody(transactional_db: None) -> None:
    assert not User.objects.exists()


def test_a_population_that_is_asked_for_too_late_says_so(db: None, request: pytest.FixtureRequest) -> None:
    with pytest.raises(AssertionError, match="ask for it by name"):
        request.getfixturevalue("two")
