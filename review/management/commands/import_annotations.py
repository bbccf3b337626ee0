"""import_annotations FILE --format label-studio|argilla --by ADMIN [--annotator NAME=ACCOUNT ...]"""

from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from review.assignments import annotation_formats, annotations
from review.management.step_command import StepCommand, account_named


class Command(StepCommand):
    help = (
        "Store annotations from another tool as drafts of the physicians who made them, who check and submit them here."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--format", required=True, choices=annotation_formats.TOOLS)
        parser.add_argument("--by", required=True, help="the admin whom the trail names")
        parser.add_argument(
            "--annotator",
            action="append",
            default=[],
            metavar="NAME=ACCOUNT",
            help="the account of an annotator; not needed if the tool knows the account's name",
        )

    def step(self, **options: Any) -> dict[str, Any]:
        file, actor = options["file"], account_named(options["by"])
        try:
            with file.open("rb") as stream:
                result = annotations.import_file(
                    options["format"], stream, file.name, accounts=options["annotator"], actor=actor
                )
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None
        refusals = [asdict(refusal) for refusal in result.refusals]
        if result.drafts:
            failed = {}
        else:
            failed = {"failed": len(refusals) or "the file has no submitted annotation"}
        return {"drafts": [[draft.case, draft.account] for draft in result.drafts], "refusals": refusals, **failed}
