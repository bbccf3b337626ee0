"""No regular expression of the product does more than linear work on a hostile text."""

import os
import subprocess
import sys

import pytest

from tests.expressions import ROOT

# Patterns that were in the product.
BAD = (
    r"\s*Answer Choices:\s*\(A\)",
    r"(?m)\s*^\s*\[END\]\s*\Z",
    r"(?is)<\|explain\|>\s*<(.*?)>\s*<end\|\|explain>",
    r"(?im)^[\s*_#>-]*explanation[\s*_#>-]*(?:[:=]|$)",
    r"(?:没有|无)\s*(?:任何|明显)?的?\s*幻觉",
    r".*\.upload(\..*)?.",
    r"(a+)+b",
)


def _try(*patterns: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "mhb_site.settings"}
    command = [sys.executable, "-m", "tests.expressions", *patterns]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.plain
def test_no_expression_of_the_product_is_slow() -> None:
    tried = _try()
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert int(tried.stdout.split()[-4]) > 100, tried.stdout  # it found the expressions


@pytest.mark.plain
def test_slow_expressions_are_recognised() -> None:
    lines = _try(*BAD).stdout.splitlines()
    assert lines[-1] == f"{len(BAD)} expressions, {len(BAD)} slow", lines
