"""docs/security.md names the test that shows each defence: the test exists under that name."""

import re

import pytest

from mhb_site.env import ROOT

pytestmark = pytest.mark.plain
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?", (ROOT / "docs" / "security.md").read_text())))


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text()
    assert not name or re.search(rf"^\s*(async )?def {name}\b", text, re.MULTILINE)


def test_every_section_names_tests() -> None:
    assert len(NAMED) > 90
