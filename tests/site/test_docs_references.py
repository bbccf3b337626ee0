"""The generated documents are what `make references` writes, and leave nothing out."""

import importlib.util
from types import ModuleType

import pytest
from django.core.management import get_commands

from mhb_site.env import ROOT, Env

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def references() -> ModuleType:
    """`.ci/references.py`, which is no package."""
    spec = importlib.util.spec_from_file_location("references", ROOT / ".ci" / "references.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_references_are_up_to_date(references: ModuleType) -> None:
    stale = references.stale_references()
    assert not stale, f"run `make references`: {[path.name for path in stale]}"


def test_every_own_command_has_its_section_with_options(references: ModuleType) -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    for name, app in get_commands().items():
        if app in references.APPS:
            assert f"\n### {name}\n" in text, name
    assert "| `--budget BUDGET_MONEY` |" in text.partition("### evaluate\n")[2].partition("\n### ")[0]


def test_a_route_shows_method_reader_and_required_fields(references: ModuleType) -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| `POST assignments/{assignment_id}/decline/` |"))
    assert "physician" in row
    assert "**reason**" in row


def test_every_setting_has_its_default_and_meaning(references: ModuleType) -> None:
    text = (ROOT / "docs" / "environment.md").read_text()
    assert "| `MHB_LEASE_SECONDS` | `60` | how long a worker may be silent before another takes its work |" in text
    assert "| `MHB_DATA_DIR` | `./var` |" in text
    assert references.setting_meanings().keys() == Env.model_fields.keys()
