"""Which pass of `make test` runs which test. Without `--pass` pytest runs them all, on the database of the settings.

- What drives a browser (`browser`) has a pass of its own: playwright's event loop in the thread of the tests is no company for
  tests that ask models.
- A test that touches the database runs on PostgreSQL. Nothing needs to be said for that, so no new test is forgotten.
- On SQLite, too, run those whose threads meet in the database (`transactional_db`, `together`), and those marked `both`: they
  are about locks, triggers, statements whose SQL differs, or a whole journey.
- What starts processes (`processes`) has databases of its own and waits more than it computes: a pass of its own, in one more
  process beside all others.
- What touches no database and what is marked `plain` (it says the same on any) runs once, with the SQLite tests.
"""

from collections.abc import Collection
from pathlib import Path

import pytest
from django.test import TestCase, TransactionTestCase

SQLITE, POSTGRESQL, PROCESSES, BROWSER = "sqlite", "postgresql", "processes", "browser"
ONCE = {"plain", "sqlite_only"}
DATABASE = {"db", "transactional_db", "django_db_reset_sequences", "django_db_serialized_rollback", "live_server"}
TRANSACTIONAL = {"transactional_db", "django_db_reset_sequences", "live_server"}


def passes(marks: Collection[str], *, database: bool, transactional: bool) -> frozenset[str]:
    """The passes of a test with these marks. There is at least one, whatever they are."""
    if "browser" in marks:
        return frozenset({BROWSER})
    if "processes" in marks:
        return frozenset({PROCESSES})
    if ONCE & set(marks) or not database:
        return frozenset({SQLITE})
    if transactional or "both" in marks:
        return frozenset({SQLITE, POSTGRESQL})
    return frozenset({POSTGRESQL})


def passes_of(item: pytest.Item) -> frozenset[str]:
    """The passes of a collected test. pytest-django lets no other test than these near the database."""
    fixtures = set(getattr(item, "fixturenames", ()))
    kind = getattr(item, "cls", None) or object
    marked = item.get_closest_marker("django_db")
    return passes(
        {mark.name for mark in item.iter_markers()},
        database=marked is not None or bool(fixtures & DATABASE) or issubclass(kind, TransactionTestCase),
        transactional=bool(fixtures & TRANSACTIONAL)
        or (marked is not None and bool(marked.kwargs.get("transaction") or marked.args[:1] == (True,)))
        or (issubclass(kind, TransactionTestCase) and not issubclass(kind, TestCase)),
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pass",
        dest="test_pass",
        choices=[SQLITE, POSTGRESQL, PROCESSES, BROWSER],
        help="only the tests of this pass of `make test`",
    )


def says(file: Path, mark: str) -> bool:
    """Whether a file of tests names this mark. Reading it costs less than importing it."""
    return f"pytest.mark.{mark}" in file.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import for the two passes of few tests only the files that have some."""
    wanted = config.getoption("test_pass")
    if wanted in {BROWSER, PROCESSES} and collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return not says(collection_path, wanted) or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another pass runs."""
    for item in items:
        for mark in {BROWSER, PROCESSES} & {mark.name for mark in item.iter_markers()}:
            if not says(item.path, mark):
                raise pytest.UsageError(
                    f"{item.nodeid}: write pytest.mark.{mark} in this file, or its pass does not find it."
                )
    wanted = config.getoption("test_pass")
    if wanted is None:
        return
    chosen = [item for item in items if wanted in passes_of(item)]
    config.hook.pytest_deselected(items=[item for item in items if wanted not in passes_of(item)])
    items[:] = chosen
