"""A population is made once, unchanged for each test that asks, and unseen by all others."""

import pytest

from review.models import User
from tests.populations import population
from tests.review.factories import account

BUILDS: list[str] = []


@population
def somebody() -> User:
    BUILDS.append("somebody")
    return account("somebody")


@population
def two() -> list[User]:
    return [account("one"), account("two")]


@pytest.mark.parametrize("turn", ["the first", "the second"])
def test_the_changes_of_a_test_are_undone(somebody: User, turn: str) -> None:
    assert [user.first_name for user in User.objects.all()] == [somebody.first_name] == [""]
    somebody.first_name = turn
    somebody.save()
    account("another")
    assert BUILDS == ["somebody"]


def test_another_population_replaces_it(two: list[User]) -> None:
    assert {*User.objects.all()} == {*two}


def test_a_test_without_a_population_finds_an_empty_database(db: None) -> None:
    assert not User.objects.exists()


def test_a_test_that_commits_finds_an_empty_database(transactional_db: None) -> None:
    assert not User.objects.exists()


def test_asking_for_a_population_too_late_is_refused(db: None, request: pytest.FixtureRequest) -> None:
    with pytest.raises(AssertionError, match="ask for it by name"):
        request.getfixturevalue("two")
