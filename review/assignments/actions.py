"""The actions that exchange cases and annotations with other tools."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from django.core.management.base import CommandError
from pydantic import Field

from review.assignments import annotation_formats, annotations
from review.common.commands import Action, Positional, Shell
from review.people.actions import account_named
from review.rules.permissions import OPERATOR

ToolFormat = Annotated[str, Shell(choices=annotation_formats.TOOLS)]


class ExportCases(Action):
    """Write the cases that wait for a review as tasks for another tool. Its annotations come back
    as drafts.
    """

    has_json = False

    format: ToolFormat
    out: Path
    benchmark: str = ""

    def perform(self) -> str:
        texts = annotations.task_files(self.format, self.benchmark, actor=OPERATOR)
        paths = []
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                path = self.out / name
                path.write_text(text + "\n", encoding="utf-8")
                paths.append(str(path))
        except OSError as error:
            raise CommandError(f"{self.out}: {error.strerror}") from None
        return "\n".join(paths)


class ImportAnnotations(Action):
    """Store annotations from another tool as drafts of the physicians who made them, who check and
    submit them here.
    """

    file: Positional[Path]
    format: ToolFormat
    by: str = Field(description="the admin whom the trail names")
    annotator: Annotated[Sequence[str], Shell(metavar="NAME=ACCOUNT")] = Field(
        (), description="the account of an annotator; not needed if the tool knows the account's name"
    )

    def perform(self) -> dict[str, Any]:
        actor = account_named(self.by)
        try:
            with self.file.open("rb") as stream:
                result = annotations.import_file(
                    self.format, stream, self.file.name, accounts=list(self.annotator), actor=actor
                )
        except OSError as error:
            raise CommandError(f"{self.file}: {error.strerror}") from None
        refusals = [asdict(refusal) for refusal in result.refusals]
        drafts = [[draft.case, draft.account] for draft in result.drafts]
        answer: dict[str, Any] = {"drafts": drafts, "refusals": refusals}
        if not drafts:
            answer["failed"] = len(refusals) or "the file has no submitted annotation"
        return answer
