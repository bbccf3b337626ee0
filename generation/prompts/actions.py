"""The action that loads prompt sets."""

from pathlib import Path
from typing import Any

from pydantic import Field

from generation.prompts import services
from review.common.commands import Action, Positional


class LoadPrompts(Action):
    """Load a folder of prompt files as the next version of a set, for example a paper's own
    wording.
    """

    benchmark: Positional[str]
    folder: Positional[Path] = Field(description="with files named as those in the benchmark's prompts/")
    name: str = Field(description="the set's name")
    note: str = Field("", description="where the wording is from")

    def perform(self) -> dict[str, Any]:
        row = services.load_folder(self.benchmark, self.folder, self.name, note=self.note)
        return {"prompts": str(row), "digest": row.digest, "failed": 0}
