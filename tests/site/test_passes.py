"""Every test has a pass of `make test`. For database tests it is PostgreSQL, unless marked."""

import pytest

from tests.passes import BROWSER, POSTGRESQL, PROCESSES, SQLITE, passes_of, pytest_collection_modifyitems


def test_a_test_without_a_database_runs_on_sqlite(request: pytest.FixtureRequest) -> None:
    assert passes_of(request.node) == {SQLITE}


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (None, {POSTGRESQL}),
        ("both", {POSTGRESQL, SQLITE}),
        ("plain", {SQLITE}),
        ("sqlite_only", {SQLITE}),
        ("processes", {PROCESSES}),
        ("browser", {BROWSER}),
    ],
)
def test_a_test_with_a_database_runs_on_postgresql_unless_marked(
    request: pytest.FixtureRequest, db: None, mark: str | None, expected: set[str]
) -> None:
    if mark:
        request.node.add_marker(mark)
    assert passes_of(request.node) == expected


@pytest.mark.django_db(transaction=True)
def test_a_test_marked_transactional_runs_on_both(request: pytest.FixtureRequest) -> None:
    assert passes_of(request.node) == {POSTGRESQL, SQLITE}


def test_a_test_with_transactional_db_runs_on_both(request: pytest.FixtureRequest, transactional_db: None) -> None:
    assert passes_of(request.node) == {POSTGRESQL, SQLITE}


def test_a_mark_that_the_file_does_not_mention_is_refused(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(BROWSER)
    with pytest.raises(pytest.UsageError, match=f"write pytest.mark.{BROWSER} in this file"):
        pytest_collection_modifyitems(request.config, [request.node])
