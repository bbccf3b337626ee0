"""How much the tests do: enough for every push (`make test`) or more (`make test-thorough`)."""

import os
from typing import TypeVar

T = TypeVar("T")
THOROUGH = os.environ.get("TEST_PROFILE") == "thorough"


def by_profile(push: T, thorough: T) -> T:
    """Return `thorough` under `make test-thorough`, and `push` otherwise."""
    return thorough if THOROUGH else push
