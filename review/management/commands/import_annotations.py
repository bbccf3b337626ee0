"""import_annotations FILE --format label-studio|argilla --by ADMIN [--annotator NAME=ACCOUNT ...]"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from review.assignments import annotation_formats, annotations
from review.errors import ShownError
from review.models import User


class Command(BaseCommand):
    help = (
        "Store annotations from another tool as drafts of the physicians who made them, who check and submit them here."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
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
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        file, actor = options["file"], User.objects.filter(username=options["by"]).first()
        if actor is None:
            raise CommandError(f"There is no account {options['by']}.")
        try:
            with file.open("rb") as stream:
                result = annotations.import_file(
                    options["format"], stream, file.name, accounts=options["annotator"], actor=actor
                )
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None
        except ShownError as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            refusals = [{"where": refusal.where, "reason": refusal.reason} for refusal in result.refusals]
            self.stdout.write(json.dumps({"drafts": result.drafts, "refusals": refusals}, ensure_ascii=False))
        else:
            self.stdout.write(f"{len(result.drafts)} drafts stored; {len(result.refusals)} annotations refused.")
            for refusal in result.refusals:
                self.stderr.write(f"{refusal.where}: {refusal.reason}")
        if result.refusals and not result.drafts:
            sys.exit(1)
