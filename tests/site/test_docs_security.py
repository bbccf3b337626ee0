"""The tests, modules and constants that docs/security.md names exist."""

import re

import pytest

from mhb_site.env import ROOT

pytestmark = pytest.mark.plain
DOCUMENT = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?", DOCUMENT)))
CONSTANTS = sorted(set(re.findall(r"`((?:review|generation|evaluation|mhb_site)\.[\w.]+)`", DOCUMENT)))


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text()
    assert not name or re.search(rf"^\s*(async )?def {name}\b", text, re.MULTILINE)


def test_every_section_names_tests() -> None:
    assert len(NAMED) > 90


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_named_module_or_constant_exists(name: str) -> None:
    if (ROOT / name.replace(".", "/")).with_suffix(".py").exists():
        return
    module, _, attribute = name.rpartition(".")
    text = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
    assert re.search(rf"^(class |def )?{attribute}\b", text, re.MULTILINE)
