"""`make size`: lines that carry code, by folder.

Without docstrings, comments, blank lines, imports at the top of a module, and migrations.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("review", "generation", "evaluation", "mhb_site")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """The number of lines of a module that carry code."""
    tree = ast.parse(text)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def main() -> int:
    for part in (PRODUCT, ("tests", "bench")):
        counts: Counter[str] = Counter()
        for top in part:
            for path in (ROOT / top).rglob("*.py"):
                if "migrations" not in path.parts:
                    inner = path.relative_to(ROOT).parts
                    counts["/".join(inner[:2] if len(inner) > 2 else inner[:1]) + "/"] += code_lines(path.read_text())
        for folder, lines in sorted(counts.items()):
            print(f"{lines:7,}  {folder}")
        print(f"{counts.total():7,}  {', '.join(part)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
