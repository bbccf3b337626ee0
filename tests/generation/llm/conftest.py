"""What the engines' tests shorten is what these are about."""

import pytest


@pytest.fixture(autouse=True)
def no_long_waits() -> None:
    """The gateway waits as long as it does in earnest; each test brings its own clock."""
