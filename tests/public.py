"""Public data sets for tests. They are not in the repository."""

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared/data"


def public(name: str) -> Path:
    """The folder or file of this name; the test is skipped where it is absent, but on CI, where that is a failure."""
    path = FOLDER / name
    if not path.exists():
        reason = f"shared/data/{name} is not there"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path
