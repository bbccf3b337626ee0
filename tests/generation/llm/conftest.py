"""Tests of the gateway measure the pauses that other engine tests shorten."""

import pytest


@pytest.fixture(autouse=True)
def no_long_waits() -> None:
    """Keep the gateway's real pauses; each test brings its own clock."""
