"""Rows that many tests begin with, made once: they are in a transaction around those tests, each of which is a savepoint.

    @population
    def release(folder: Path, models: str) -> Release:
        return frozen(folder, models, cast(*PHYSICIANS), conversations=3)

`release` is then a fixture like any other, and what a test does to the rows is undone after it. `folder` is theirs alone, other
parameters are fixtures of the session. Tests of a file that ask for the same population run one after the other. A test that
asks for none, and one that commits, finds an empty database as ever.
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

Make = Callable[..., Any]


class _There:
    """The population that is there, in its open transaction."""

    def __init__(self) -> None:
        self.make: Make | None = None
        self.made: Any = None
        self._around = ExitStack()

    def comes(self, make: Make, request: pytest.FixtureRequest, blocker: DjangoDbBlocker) -> None:
        with ExitStack() as stack:
            stack.enter_context(blocker.unblock())
            around = transaction.atomic()  # like that of a test, in which a service may want to be the outermost
            around._from_testcase = True  # type: ignore[attr-defined]
            stack.enter_context(around)
            stack.callback(transaction.set_rollback, True)
            self.made = make(**{name: _value(request, name) for name in signature(make).parameters})
            self._around = stack.pop_all()
        self.make = make

    def goes(self) -> None:
        self.make = self.made = None
        self._around.close()


_there = _There()


def population(make: Make) -> Any:
    """A fixture of what `make` makes, of which each test gets a copy."""

    def copied(db: None) -> Any:
        assert _there.make is make, f"{make.__name__} is made before a test begins: ask for it by name"
        return deepcopy(_there.made)

    copied.population = make  # type: ignore[attr-defined]
    return pytest.fixture(name=make.__name__)(copied)


def _value(request: pytest.FixtureRequest, name: str) -> Any:
    if name == "folder":
        return request.getfixturevalue("tmp_path_factory").mktemp("rows")
    return request.getfixturevalue(name)


def _wanted(item: pytest.Item) -> Make | None:
    """What a test asks for: one population at most."""
    named = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    definitions = [found[-1] for found in named.values()]
    found: list[Make] = [each.func.population for each in definitions if hasattr(each.func, "population")]
    if len(found) > 1:
        raise pytest.UsageError(f"{item.nodeid} asks for {len(found)} populations.")
    return found[0] if found else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of a file that ask for the same stand together."""

    def name(item: pytest.Item) -> str:
        make = _wanted(item)
        return make.__name__ if make else ""

    items[:] = [item for _path, group in groupby(items, key=lambda item: item.path) for item in sorted(group, key=name)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, of a file or of a test, opens another database."""
    if _there.make is not _wanted(item):
        _there.goes()


@pytest.fixture(scope="session")
def _populations(django_db_setup: None) -> Iterator[None]:
    yield
    _there.goes()


@pytest.fixture
def _population(request: pytest.FixtureRequest, _populations: None, django_db_blocker: DjangoDbBlocker) -> None:
    make = _wanted(request.node)
    if make is not None and _there.make is None:
        _there.comes(make, request, django_db_blocker)


@pytest.fixture
def _django_db_helper(_population: None, _django_db_helper: None) -> None:
    """The transaction of a test begins when the population is there."""
