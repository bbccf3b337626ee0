"""How much the tests do: enough for every push (`make test`) or more (`make test-thorough`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from bench import servers

T = TypeVar("T")
THOROUGH = os.environ.get("TEST_PROFILE") == "thorough"


def by_profile(push: T, thorough: T) -> T:
    """Return `thorough` under `make test-thorough`, and `push` otherwise."""
    return thorough if THOROUGH else push


@contextmanager
def installed() -> Iterator[None]:
    """Skip the test by name where a service is not installed; on CI that is a failure."""
    try:
        yield
    except servers.Missing as missing:
        if servers.ci():
            raise
        pytest.skip(str(missing))
