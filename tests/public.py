"""Public data sets for tests, which are not in the repository."""

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared/data"


def public(name: str) -> Path:
    """Path of a public data set; without it the test is skipped, or fails on CI."""
    path = FOLDER / name
    if not path.exists():
        reason = f"shared/data/{name} does not exist"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path
