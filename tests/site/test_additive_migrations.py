"""Within a minor version migrations only add: old code runs on new tables during a restart."""

import subprocess
import tomllib

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from mhb_site.env import ROOT
from review.models.append_only import AppendOnly
from review.models.covered_indexes import DropCoveredIndex
from review.models.full_text import FullText

pytestmark = pytest.mark.plain
# And Changeable. A covered index is missed by nobody.
ADDS = (migrations.CreateModel, migrations.AddIndex, AppendOnly, FullText, DropCoveredIndex)
APPS = ("review", "generation", "evaluation", "mhb_site")


def breaks_old_code(operation: Operation) -> bool:
    """Whether code that does not know the operation could fail afterwards."""
    if isinstance(operation, migrations.AddField):
        field = operation.field
        # The old code inserts rows without the column; Django's `default` is not the database's.
        return not (field.null or field.has_db_default() or field.many_to_many)
    if isinstance(operation, migrations.AlterField):
        return not isinstance(operation.field, models.CharField)  # choices and lengths, which grow
    if isinstance(operation, migrations.RunPython):
        return False
    return not isinstance(operation, ADDS)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def last_tag() -> str:
    """The last tag of this minor version; skips the test if there is none."""
    tag = git("describe", "--tags", "--abbrev=0").strip()
    if not tag:
        pytest.skip("no version is tagged, or this clone is too shallow to hold its tag")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if tag.lstrip("v").split(".")[:2] != version.split(".")[:2]:
        pytest.skip(f"{version} is another minor version than {tag}")
    return tag


def test_migrations_since_the_last_tag_only_add() -> None:
    tag = last_tag()
    released = {path.rpartition("/")[2][:-3] for path in git("ls-tree", "-r", "--name-only", tag).splitlines()}
    found = MigrationLoader(None).disk_migrations
    new = {key: each for key, each in found.items() if key[0] in APPS and key[1] not in released}
    for key, migration in new.items():
        if not migration.replaces:  # a squashed one runs on new databases only
            assert not any(map(breaks_old_code, migration.operations)), key


@pytest.mark.parametrize(
    ("operation", "breaks"),
    [
        (migrations.AddField("case", "note", models.TextField(null=True)), False),
        (migrations.AddField("case", "note", models.TextField(db_default="")), False),
        (migrations.AddField("case", "note", models.TextField(default="")), True),
        (migrations.CreateModel("New", [("id", models.BigAutoField(primary_key=True))]), False),
        (migrations.AlterField("case", "kind", models.CharField(max_length=20)), False),
        (migrations.RemoveField("case", "title"), True),
        (migrations.RenameField("case", "title", "name"), True),
        (migrations.DeleteModel("Case"), True),
    ],
)
def test_what_only_adds(operation: Operation, breaks: bool) -> None:
    assert breaks_old_code(operation) is breaks
