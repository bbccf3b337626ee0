"""What a command says of a file that cannot be used."""

import errno
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from review.common.commands import Action, ActionCommand, Positional

pytestmark = pytest.mark.plain


class Open(Action):
    """Fail on a file, though a folder was given."""

    folder: Positional[Path]
    file: Positional[str]

    def perform(self) -> dict[str, Any]:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.file)


@pytest.mark.parametrize("name", ["given/folder", "given/folder/file", "given"])
def test_a_file_that_was_given_is_named_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As is one in it, and one above it, which `mkdir(parents=True)` names."""
    monkeypatch.chdir(tmp_path)
    for file in (name, str(tmp_path / name)):
        with pytest.raises(CommandError, match="No such file or directory"):
            call_command(ActionCommand(Open), "given/folder", file)


def test_another_file_is_our_own_fault(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        call_command(ActionCommand(Open), str(tmp_path / "given"), str(tmp_path / "other"))
