"""The engines' fixtures for every test here."""

import pytest

from generation.sources.importers.base import WrongFormat
from tests.engine import manage, models, no_long_waits

__all__ = ["manage", "models", "no_long_waits"]


@pytest.fixture
def read(tmp_path):
    def read(importer, data):
        path = tmp_path / "file"
        path.write_bytes(data)
        return list(importer.rows(path, importer.sniff(path)))

    return read


@pytest.fixture
def why_not(tmp_path):
    def why_not(importer, data):
        path = tmp_path / "file"
        path.write_bytes(data)
        with pytest.raises(WrongFormat) as caught:
            importer.sniff(path)
        return str(caught.value)

    return why_not
