"""Every table that the site writes is CSV that a spreadsheet reads and does not execute."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.common import csv_text

ROOT = Path(__file__).resolve().parents[2]
START = "=+-@＝＋－＠\t\r\n'"


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("start", list(START))
def test_no_text_begins_like_a_formula(start: str) -> None:
    evil = start + 'HYPERLINK("x")'
    assert cells_of(csv_text.table([[evil, -0.5, None, 1]])) == [["'" + evil, "-0.5", "", "1"]]


@pytest.mark.parametrize(
    "before", [" ", "\u00a0", "\u3000", "\ufeff", "\u200b", "\u202e", "\x0b", " \u200b ", " " * 200]
)
@pytest.mark.parametrize("start", ["=1", "-1", "＝1"])
def test_what_is_not_shown_before_a_formula_does_not_hide_it(before: str, start: str) -> None:
    assert csv_text.safe(before + start) == "'" + before + start
    assert csv_text.safe(before[:90] + "a" + start) == before[:90] + "a" + start


@given(st.lists(st.lists(st.text(), min_size=2, max_size=3), min_size=1, max_size=3))
def test_what_is_written_can_be_read_again(rows: list[list[str]]) -> None:
    read = cells_of(csv_text.table(rows))
    assert not [cell for row in read for cell in row if cell.startswith(tuple(START[:-1]))]
    assert [[cell.removeprefix("'") for cell in row] for row in read] == rows


def test_there_is_no_other_writer_of_csv() -> None:
    others = [
        str(path.relative_to(ROOT))
        for folder in ("mhb_site", "evaluation", "generation", "review")
        for path in (ROOT / folder).rglob("*.py")
        if "csv.writer" in (text := path.read_text(encoding="utf-8")).replace("`csv.writer`", "")
        or "DictWriter" in text
        or "to_csv" in text
    ]
    assert others == []
