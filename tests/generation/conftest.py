"""Fixtures of the engine and of importers, for every test of generation."""

from pathlib import Path

import pytest

from generation.models import Source
from generation.sources.importers.base import WrongFormat
from tests.engine import conversations_file, import_file, manage, models, no_long_waits

__all__ = ["manage", "models", "no_long_waits"]


@pytest.fixture
def source(tmp_path: Path, db: None) -> Source:
    """Six conversations."""
    return import_file(conversations_file(tmp_path / "own.jsonl", 6))


@pytest.fixture
def read_rows(tmp_path):
    """Return a function that reads data with an importer, and returns rows and refusals."""

    def read_rows(importer, data, name="file"):
        path = tmp_path / name  # which can tell the split
        path.write_bytes(data)
        return list(importer.rows(path, importer.sniff(path)))

    return read_rows


@pytest.fixture
def refusal_reason(tmp_path):
    """Return a function that returns why an importer refuses data as a whole."""

    def refusal_reason(importer, data):
        path = tmp_path / "file"
        path.write_bytes(data)
        with pytest.raises(WrongFormat) as error:
            importer.sniff(path)
        return str(error.value)

    return refusal_reason
