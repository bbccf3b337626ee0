"""Every test has a pass of `make test`. For database tests it is PostgreSQL, unless marked."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.passes import (
    BROWSER,
    POSTGRESQL,
    PROCESSES,
    SQLITE,
    passes,
    passes_of,
    pytest_collection_modifyitems,
    pytest_ignore_collect,
)

MARKS = ("browser", "processes", "plain", "both", "sqlite_only")
SUBSETS = [set(subset) for size in range(len(MARKS) + 1) for subset in combinations(MARKS, size)]


@pytest.mark.parametrize("marks", SUBSETS, ids=lambda marks: "+".join(sorted(marks)) or "none")
@pytest.mark.parametrize(("database", "transactional"), [(False, False), (True, False), (True, True)])
def test_any_combination_of_marks_has_a_pass(marks: set[str], database: bool, transactional: bool) -> None:
    assert passes(marks, database=database, transactional=transactional)


def test_a_database_test_runs_on_postgresql() -> None:
    assert passes((), database=True, transactional=False) == {POSTGRESQL}
    assert passes((), database=True, transactional=True) == {POSTGRESQL, SQLITE}
    assert passes({"both"}, database=True, transactional=False) == {POSTGRESQL, SQLITE}
    assert passes((), database=False, transactional=False) == {SQLITE}
    assert passes({"sqlite_only"}, database=True, transactional=True) == {SQLITE}
    assert passes({"processes", "plain"}, database=False, transactional=False) == {PROCESSES}
    assert passes({"browser", "processes"}, database=True, transactional=True) == {BROWSER}


def test_a_test_without_a_database_runs_on_sqlite(request: pytest.FixtureRequest) -> None:
    assert passes_of(request.node) == {SQLITE}


def test_a_test_with_the_fixture_db_runs_on_postgresql(request: pytest.FixtureRequest, db: None) -> None:
    assert passes_of(request.node) == {POSTGRESQL}


@pytest.mark.django_db
def test_a_test_marked_django_db_runs_on_postgresql(request: pytest.FixtureRequest) -> None:
    assert passes_of(request.node) == {POSTGRESQL}


@pytest.mark.django_db(transaction=True)
def test_a_test_marked_transactional_runs_on_both(request: pytest.FixtureRequest) -> None:
    assert passes_of(request.node) == {POSTGRESQL, SQLITE}


def test_a_test_with_transactional_db_runs_on_both(request: pytest.FixtureRequest, transactional_db: None) -> None:
    assert passes_of(request.node) == {POSTGRESQL, SQLITE}


class _FakeConfig:
    """A pytest configuration in which one pass is selected."""

    def __init__(self, selected: str | None) -> None:
        self.selected = selected

    def getoption(self, _name: str) -> str | None:
        return self.selected


@pytest.mark.parametrize(
    ("selected", "imported"), [(BROWSER, False), (PROCESSES, True), (SQLITE, True), (POSTGRESQL, True), (None, True)]
)
def test_a_pass_of_few_tests_imports_only_files_with_some(tmp_path: Path, selected: str | None, imported: bool) -> None:
    file = tmp_path / "test_servers.py"
    file.write_text("pytestmark = pytest.mark.processes\n", encoding="utf-8")
    assert (pytest_ignore_collect(file, _FakeConfig(selected)) is None) is imported  # type: ignore[arg-type]
    assert pytest_ignore_collect(tmp_path, _FakeConfig(selected)) is None  # type: ignore[arg-type]


def test_a_mark_that_the_file_does_not_mention_is_refused(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(getattr(pytest.mark, BROWSER))
    with pytest.raises(pytest.UsageError, match=f"write pytest.mark.{BROWSER} in this file"):
        pytest_collection_modifyitems(request.config, [request.node])
