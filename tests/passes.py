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

from pathlib import Path

import pytest

SQLITE, POSTGRESQL, PROCESSES, BROWSER = "sqlite", "postgresql", "processes", "browser"
SEPARATE = {BROWSER, PROCESSES}  # passes of few tests, found by their mark
TRANSACTIONAL = {"transactional_db", "live_server"}  # fixtures


def passes_of(item: pytest.Item) -> set[str]:
    """The passes of a collected test: always at least one.

    A test uses the database through a fixture or the mark `django_db`: pytest-django refuses access
    to all others.
    """
    marks = {mark.name for mark in item.iter_markers()}
    if marks & SEPARATE:
        return {BROWSER} if BROWSER in marks else {PROCESSES}
    fixtures, mark = set(getattr(item, "fixturenames", ())), item.get_closest_marker("django_db")
    if marks & {"plain", "sqlite_only"} or (mark is None and not fixtures & {"db", *TRANSACTIONAL}):
        return {SQLITE}
    both = "both" in marks or fixtures & TRANSACTIONAL or (mark is not None and mark.kwargs.get("transaction"))
    return {SQLITE, POSTGRESQL} if both else {POSTGRESQL}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pass",
        dest="test_pass",
        choices=[SQLITE, POSTGRESQL, PROCESSES, BROWSER],
        help="only the tests of this pass of `make test`",
    )


def mentions_mark(file: Path, mark: str) -> bool:
    """Whether the text of a test file mentions this mark: cheaper than to import it."""
    return f"pytest.mark.{mark}" in file.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the passes of few tests, skip the files without any."""
    selected = config.getoption("test_pass")
    if selected in SEPARATE and collection_path.match("test_*.py"):
        return not mentions_mark(collection_path, selected) or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other passes.

    Raises UsageError for a mark that `pytest_ignore_collect` could not find in the test's own file.
    """
    for item in items:
        for mark in SEPARATE & {mark.name for mark in item.iter_markers()}:
            if not mentions_mark(item.path, mark):
                raise pytest.UsageError(
                    f"{item.nodeid}: write pytest.mark.{mark} in this file, or its pass does not find it."
                )
    if selected := config.getoption("test_pass"):
        config.hook.pytest_deselected(items=[item for item in items if selected not in passes_of(item)])
        items[:] = [item for item in items if selected in passes_of(item)]
