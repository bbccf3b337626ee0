"""Texts in tables of Markdown and LaTeX stay texts, whatever a file or a server put into them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from review.common import text_tables

MARKUP = {"link_open", "image", "html_inline", "html_block", "code_inline"}
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
PARTS = ["|", "\\", "`", "[a](https://b)", "![a](https://b)", "<img src=a>", "<https://b>", "<!--", "\n", " ", "a"]


def kinds_of(text: str) -> list[str]:
    """The types of all tokens of a Markdown text."""
    kinds = []
    for token in PARSER.parse(text):
        kinds += [token.type, *(child.type for child in token.children or ())]
    return kinds


@pytest.mark.parametrize("hostile", [part for part in PARTS if len(part) > 1])
def test_each_of_these_is_markup_where_nothing_is_escaped(hostile: str) -> None:
    assert MARKUP & {*kinds_of(f"a {hostile}-->")}


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
def test_a_cell_of_markdown_holds_neither_links_nor_html(text: str) -> None:
    kinds = kinds_of("\n".join(text_tables.markdown(["a", "b"], [(text, "1")])))
    assert kinds.count("td_open") == 2
    assert not MARKUP & {*kinds}


def test_a_bar_stays_in_its_cell_behind_a_backslash_too() -> None:
    assert text_tables.markdown_cell("a | b\nc") == r"a \| b c"
    assert text_tables.markdown_cell(r"a \| b") == r"a \\\| b"
    assert text_tables.markdown_cell("p < 0.001, 5 <6 and gpt_4o*") == "p < 0.001, 5 <6 and gpt_4o*"


@pytest.mark.parametrize("begin", ["[2cm]", "*", " [", "&", "\\\\"])
def test_a_cell_of_latex_is_no_argument_of_the_line_before(begin: str) -> None:
    lines = text_tables.latex("", ["a"], [[begin]])
    row = lines[lines.index(r"\midrule") + 1]
    assert row.strip()[0] not in "[*&"
    assert row.count(r"\\") == 1
