"""The buttons, pages and titles that documents name in italics are those of the site."""

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from mhb_site.env import ROOT

pytestmark = pytest.mark.plain
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
LABEL = re.compile(r"(?<![*\w\\])\*([A-Z][^*`]{2,40})\*(?![*\w])")
NO_LABELS = {"CLOSED", "Doctor:", "Patient:", "Shape", "None", "Load N", "Says not to put butter on the burn."}


@pytest.fixture(scope="module")
def labels() -> set[str]:
    """All texts of pages, in English, without their arguments."""
    with (ROOT / "mhb_site" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po").open("rb") as file:
        catalog = read_po(file)
    texts = set()
    for message in catalog:
        forms = message.id
        if isinstance(forms, str):
            forms = [forms]
        for form in forms:
            texts.add(re.sub(r"%\(\w+\)s ", "", form))
    return texts


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_labels_in_italics_are_on_the_site(path: Path, labels: set[str]) -> None:
    prose = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("    "))
    named = {" ".join(label.split()) for label in LABEL.findall(prose)}
    assert named - labels - NO_LABELS == set()
