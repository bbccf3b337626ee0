"""Tables that would take hours to read are read to a limit."""

import csv

import pytest

from review.rules import text_files
from review.rules.text_files import CSVTable, Endless, TwiceNamed, yes_or_no

pytestmark = pytest.mark.plain


def test_lines_that_each_open_a_quote_end_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read again as a row of its own, to the end of the file: the square of its length."""
    monkeypatch.setattr(text_files, "MAX_AGAIN", 1_000)
    rows = list(CSVTable(["id,text\n", "1,whole\n", *['a","\n'] * 5_000]).rows())
    assert rows[0] == (2, ["1", "whole"])
    assert 1 < len(rows) < 10
    assert isinstance(rows[-1][1], Endless)
    few = list(CSVTable(["id,text\n", '1,"open\n', "2,whole\n"]).rows())
    assert [isinstance(cells, csv.Error) for _line, cells in few] == [True, False], "one open quote costs one row"


def test_a_hundred_thousand_columns_are_compared_once() -> None:
    names = [f"c{number}" for number in range(100_000)]
    assert len(CSVTable([",".join(names) + "\n"]).header) == 100_000
    with pytest.raises(TwiceNamed, match="c7"):
        CSVTable([",".join([*names, "c7"]) + "\n"])


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("TRUE", "FALSE"), ("WAHR", "FALSCH"), ("VRAI", "FAUX"), ("VERDADERO", "FALSO"), ("VERO", "FALSO"),
        ("VERDADEIRO", "FALSO"), ("1.0", "0.0"),
    ],
)  # fmt: skip
def test_a_language_is_read_with_both_of_its_words(yes: str, no: str) -> None:
    """Else a file would keep the one half of its verdicts."""
    assert (yes_or_no(yes), yes_or_no(no)) == (True, False)
