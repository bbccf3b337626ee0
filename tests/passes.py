"""Which pass of `make test` runs which test.

Without `--pass`, pytest runs all tests on the database of the settings.

- `browser`: tests marked `browser` have a pass of their own. Playwright keeps an event loop in the
  thread of the tests, which breaks tests that call models.
- `postgresql`: every test that uses the database. This needs no mark, so that no new test is
  forgotten.
- `sqlite`: of those, also the tests in which several threads use the database (`transactional_db`,
  `run_concurrently`), and the tests marked `both`: locks, triggers, statements whose SQL differs,
  whole journeys. And all tests that use no database, or are marked `plain` because their result
  does not depend on it; these run only here.
- `processes`: tests marked `processes` have databases of their own, and wait more than they
  compute: they run in one more process, beside all others.
"""

from collections.abc import Collection
from pathlib import Path

import pytest
from django.test import TestCase, TransactionTestCase

SQLITE, POSTGRESQL, PROCESSES, BROWSER = "sqlite", "postgresql", "processes", "browser"
SQLITE_MARKS = {"plain", "sqlite_only"}
DATABASE_FIXTURES = {
    "db",
    "transactional_db",
    "django_db_reset_sequences",
    "django_db_serialized_rollback",
    "live_server",
}
TRANSACTIONAL_FIXTURES = {"transactional_db", "django_db_reset_sequences", "live_server"}


def passes(marks: Collection[str], *, database: bool, transactional: bool) -> frozenset[str]:
    """Return the passes of a test with these marks: always at least one."""
    if "browser" in marks:
        return frozenset({BROWSER})
    if "processes" in marks:
        return frozenset({PROCESSES})
    if SQLITE_MARKS & set(marks) or not database:
        return frozenset({SQLITE})
    if transactional or "both" in marks:
        return frozenset({SQLITE, POSTGRESQL})
    return frozenset({POSTGRESQL})


def passes_of(item: pytest.Item) -> frozenset[str]:
    """Return the passes of a collected test.

    A test uses the database through a fixture, the mark `django_db` or a test case class:
    pytest-django refuses access to all others.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    test_class = getattr(item, "cls", None) or object
    mark = item.get_closest_marker("django_db")
    return passes(
        {mark.name for mark in item.iter_markers()},
        database=mark is not None or bool(fixtures & DATABASE_FIXTURES) or issubclass(test_class, TransactionTestCase),
        transactional=bool(fixtures & TRANSACTIONAL_FIXTURES)
        or (mark is not None and bool(mark.kwargs.get("transaction") or mark.args[:1] == (True,)))
        or (issubclass(test_class, TransactionTestCase) and not issubclass(test_class, TestCase)),
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pass",
        dest="test_pass",
        choices=[SQLITE, POSTGRESQL, PROCESSES, BROWSER],
        help="only the tests of this pass of `make test`",
    )


def mentions_mark(file: Path, mark: str) -> bool:
    """Whether the text of a test file mentions this mark.

    Reading it is cheaper than importing it.
    """
    return f"pytest.mark.{mark}" in file.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the passes `browser` and `processes`, skip the files without such tests: few have any."""
    selected = config.getoption("test_pass")
    if (
        selected in {BROWSER, PROCESSES}
        and collection_path.name.startswith("test_")
        and collection_path.suffix == ".py"
    ):
        return not mentions_mark(collection_path, selected) or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other passes.

    Raises UsageError for a mark that `pytest_ignore_collect` could not find in the test's own file.
    """
    for item in items:
        for mark in {BROWSER, PROCESSES} & {mark.name for mark in item.iter_markers()}:
            if not mentions_mark(item.path, mark):
                raise pytest.UsageError(
                    f"{item.nodeid}: write pytest.mark.{mark} in this file, or its pass does not find it."
                )
    selected = config.getoption("test_pass")
    if selected is None:
        return
    kept = [item for item in items if selected in passes_of(item)]
    config.hook.pytest_deselected(items=[item for item in items if selected not in passes_of(item)])
    items[:] = kept
