"""Rows that several tests of a file begin with, made once.

    @population
    def release(folder: Path, models: str) -> Release:
        return make_release(folder, models, accounts_of(*PHYSICIANS), conversations=3)

`release` is then a fixture like any other. Its rows live in a transaction around the tests that ask
for it; each of those tests is a savepoint, so what it does to the rows is undone afterwards.

The parameter `folder` is a folder for this population; other parameters are session fixtures. Tests
of a file that ask for the same population run one after the other. A test that asks for none, and a
test that commits, finds an empty database as usual.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from inspect import signature
from itertools import groupby
from typing import Any

import pytest
from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker

Builder = Callable[..., Any]


class _CurrentPopulation:
    """The population in the database, inside its open transaction; at most one at a time."""

    def __init__(self) -> None:
        self.build: Builder | None = None
        self.value: Any = None
        self._transaction = ExitStack()

    def load(self, build: Builder, request: pytest.FixtureRequest, blocker: DjangoDbBlocker) -> None:
        """Open a transaction and build the population in it."""
        with ExitStack() as stack:
            stack.enter_context(blocker.unblock())
            outer = transaction.atomic()
            # Marked as a transaction of a test, in which Django lets a service open a `durable`
            # block.
            outer._from_testcase = True  # type: ignore[attr-defined]
            stack.enter_context(outer)
            stack.callback(transaction.set_rollback, True)
            self.value = build(**{name: _argument(request, name) for name in signature(build).parameters})
            self._transaction = stack.pop_all()
        self.build = build

    def unload(self) -> None:
        """Roll the population back, if there is one."""
        self.build = self.value = None
        self._transaction.close()


_current = _CurrentPopulation()


def population(build: Builder) -> Any:
    """Turn `build` into a fixture that gives each test a copy of what it returns."""

    def copied(db: None) -> Any:
        assert _current.build is build, f"{build.__name__} is made before a test begins: ask for it by name"
        return deepcopy(_current.value)

    copied.population = build  # type: ignore[attr-defined]
    return pytest.fixture(name=build.__name__)(copied)


def _argument(request: pytest.FixtureRequest, name: str) -> Any:
    if name == "folder":
        return request.getfixturevalue("tmp_path_factory").mktemp("rows")
    return request.getfixturevalue(name)


def _population_of(item: pytest.Item) -> Builder | None:
    """Return the population that a test asks for. Refuses a test that asks for two."""
    definitions = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    fixtures = [overriding[-1] for overriding in definitions.values()]
    builders: list[Builder] = [each.func.population for each in fixtures if hasattr(each.func, "population")]
    if len(builders) > 1:
        raise pytest.UsageError(f"{item.nodeid} asks for {len(builders)} populations.")
    return builders[0] if builders else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of each file by the population that they ask for."""

    def population_name(item: pytest.Item) -> str:
        build = _population_of(item)
        return build.__name__ if build else ""

    items[:] = [
        item
        for _path, group in groupby(items, key=lambda item: item.path)
        for item in sorted(group, key=population_name)
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Roll back the last test's population, unless this test asks for it too.

    This comes before all fixtures, because one of them may connect to another database.
    """
    if _current.build is not _population_of(item):
        _current.unload()


@pytest.fixture(scope="session")
def _population_cleanup(django_db_setup: None) -> Iterator[None]:
    yield
    _current.unload()


@pytest.fixture
def _loaded_population(
    request: pytest.FixtureRequest, _population_cleanup: None, django_db_blocker: DjangoDbBlocker
) -> None:
    build = _population_of(request.node)
    if build is not None and _current.build is None:
        _current.load(build, request, django_db_blocker)


@pytest.fixture
def _django_db_helper(_loaded_population: None, _django_db_helper: None) -> None:
    """Begin the transaction of a test only after its population has been loaded."""
