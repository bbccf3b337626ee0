"""How far tests go: `make test` goes as far as every push can wait for, `make test-thorough` farther."""

import os
from typing import TypeVar

T = TypeVar("T")
THOROUGH = os.environ.get("TEST_PROFILE") == "thorough"


def far(push: T, thorough: T) -> T:
    """The value of this profile."""
    return thorough if THOROUGH else push
