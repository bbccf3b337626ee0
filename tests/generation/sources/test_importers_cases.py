"""MedMistake cases: the layout, and every refusal with its line and reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from generation.sources.importers import medmistake_cases
from generation.sources.importers.base import Refusal, Row, WrongFormat
from tests.benchmarks.medmistake.conversations import cases

pytestmark = pytest.mark.plain


def read_lines(path: Path, *lines: Any) -> list[Row | Refusal]:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return list(medmistake_cases.rows(path, medmistake_cases.sniff(path)))


def test_cases_are_read_and_bad_ones_are_refused_with_line_and_reason(tmp_path: Path) -> None:
    good = cases(1)[0]
    without = {key: value for key, value in good.items() if key != "persona"}
    entries = read_lines(
        tmp_path / "f",
        good,
        without,
        {**good, "goals": []},
        {**good, "goals": "to be well"},
        {**good, "specialty": 7},
        "{id: 7}",
        {**good, "id": "with space"},
    )
    row, *refusals = entries
    assert isinstance(row, Row)
    assert row.content["kind"] == "case"
    assert (row.external_id, row.language, row.facets) == (good["id"], "en", {"specialty": "family medicine"})
    reasons = [refusal.reason for refusal in refusals if isinstance(refusal, Refusal)]
    assert [refusal.where for refusal in refusals] == [f"line {n}" for n in range(2, 8)]
    assert [reason.split(":")[0].split(" is")[0] for reason in reasons[:2]] == ["'persona'", "'goals'"]
    assert "not a list of texts" in reasons[2]
    assert "'specialty' is not a text" in reasons[3]
    assert "not JSON" in reasons[4]
    assert "space" in reasons[5]


def test_a_file_of_another_format_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(WrongFormat, match="persona"):
        read_lines(tmp_path / "f", {"prompt": []})
    with pytest.raises(WrongFormat, match="array"):
        read_lines(tmp_path / "f", "[]")
