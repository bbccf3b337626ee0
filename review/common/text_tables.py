"""Tables as lines of Markdown and of LaTeX; cells are plain text, and are escaped here."""

import re
from collections.abc import Iterable, Sequence

# What ends a cell, or begins a link, an image, code or HTML; a `<` before a space or digit is none.
_MARKUP = re.compile(r"[\\|\[`]|<(?=[A-Za-z/!?])")

_TEX_ESCAPES = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
                "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "–": "--", "<": "$<$", ">": "$>$",
                "[": "{[}", "*": "{*}"}  # fmt: skip  # after the end of a line, both would be its arguments


def markdown(head: Sequence[object], rows: Iterable[Iterable[object]], *, numbers: int = 0) -> list[str]:
    """The lines of a Markdown table; the last `numbers` columns are aligned right."""
    rule = "|" + "---|" * (len(head) - numbers) + "---:|" * numbers
    return [_markdown_line(head), rule, *map(_markdown_line, rows)]


def section(title: str, head: Sequence[object], rows: Sequence[Iterable[object]], note: str = "") -> list[str]:
    """A section of a Markdown document with a table and a note below it; none without rows."""
    if not rows:
        return []
    lines = ["", f"## {title}", "", *markdown(head, rows)]
    if note:
        lines += ["", note]
    return lines


def _markdown_line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(markdown_cell, cells)) + " |"


def markdown_cell(value: object) -> str:
    """A value on one line, without links, images, code and HTML, which ends no cell of a table."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(str(value).split()))


def latex(caption: str, head: Sequence[object], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a LaTeX table with booktabs, after an empty line."""
    lines = [_latex_line(head), r"\midrule", *map(_latex_line, rows)]
    return [
        "",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{tex(caption)}}}",
        rf"\begin{{tabular}}{{{'l' * len(head)}}}",
        r"\toprule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def _latex_line(cells: Iterable[object]) -> str:
    return " & ".join(map(tex, cells)) + r" \\"


def tex(value: object) -> str:
    """A value as plain text in LaTeX."""
    return "".join(_TEX_ESCAPES.get(character, character) for character in str(value))
