"""MedMistake cases: the layout, and every refusal by its line and reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from generation.sources.importers import medmistake_cases
from generation.sources.importers.base import Refusal, Row, WrongFormat
from tests.benchmarks.medmistake.conversations import cases

pytestmark = pytest.mark.plain


def rows_of(path: Path, *lines: Any) -> list[Row | Refusal]:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return list(medmistake_cases.rows(path, medmistake_cases.sniff(path)))


def test_cases_are_read_and_bad_ones_named(tmp_path: Path) -> None:
    good = cases(1)[0]
    without = {key: value for key, value in good.items() if key != "persona"}
    found = rows_of(
        tmp_path / "f",
        good,
        without,
        {**good, "goals": []},
        {**good, "goals": "to be well"},
        {**good, "specialty": 7},
        "{",
        {**good, "id": "with space"},
    )
    row, *refused = found
    assert isinstance(row, Row)
    assert row.content["kind"] == "case"
    assert (row.external_id, row.language, row.facets) == (good["id"], "en", {"specialty": "family medicine"})
    reasons = [each.reason for each in refused if isinstance(each, Refusal)]
    assert [each.where for each in refused] == [f"line {n}" for n in range(2, 8)]
    assert [reason.split(":")[0].split(" is")[0] for reason in reasons[:2]] == ["'persona'", "'goals'"]
    assert "not a list of texts" in reasons[2]
    assert "'specialty' is not a text" in reasons[3]
    assert "not JSON" in reasons[4]
    assert "space" in reasons[5]


def test_another_file_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(WrongFormat, match="persona"):
        rows_of(tmp_path / "f", {"prompt": []})
    with pytest.raises(WrongFormat, match="array"):
        rows_of(tmp_path / "f", "[]")
