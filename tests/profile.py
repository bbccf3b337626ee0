"""How much the tests do (`make test`, `make test-thorough`), and what they skip for lack of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from bench import servers

T = TypeVar("T")
THOROUGH = os.environ.get("TEST_PROFILE") == "thorough"
PUBLIC = Path(__file__).parents[2] / "shared/data"  # public data sets, which are not in the repository


def by_profile(push: T, thorough: T) -> T:
    """Return `thorough` under `make test-thorough`, and `push` otherwise."""
    return thorough if THOROUGH else push


def skip_for(reason: str) -> NoReturn:
    """Skip the test by name and reason; on CI it fails."""
    if servers.ci():
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def installed() -> Iterator[None]:
    """Skip the test where a service is not installed."""
    try:
        yield
    except servers.Missing as missing:
        skip_for(str(missing))


def public(name: str) -> Path:
    """Path of a public data set, without which the test is skipped."""
    if not (PUBLIC / name).exists():
        skip_for(f"shared/data/{name} does not exist")
    return PUBLIC / name
