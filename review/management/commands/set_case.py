"""set_case [ID...] [--undetermined] [--benchmark NAME] [--language CODE] [--specialty NAME]"""

import re
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from review.cases import services
from review.cases.forms import LANGUAGE_CODE
from review.errors import ShownError
from review.models import Case
from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = "Set which language or specialty the reviewers of open cases must have; '' lifts the limit."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("cases", nargs="*", type=int, metavar="ID")
        parser.add_argument("--undetermined", action="store_true", help="all open cases of unknown language")
        parser.add_argument("--benchmark", default="", help="with --undetermined: of this benchmark alone")
        parser.add_argument("--language", help="ISO 639-1")
        parser.add_argument("--specialty")

    def handle(self, *args: Any, **options: Any) -> None:
        language, specialty = options["language"], options["specialty"]
        if language is None and specialty is None:
            raise CommandError("Give --language, --specialty or both.")
        if language and not re.fullmatch(LANGUAGE_CODE, language):
            raise CommandError(f"--language expects a code of ISO 639-1, not {language!r}")
        known = set(Case.objects.filter(pk__in=options["cases"]).values_list("pk", flat=True))
        if unknown := [number for number in options["cases"] if number not in known]:
            raise CommandError(f"There is no case {unknown[0]}.")
        chosen = Q(pk__in=known)
        if options["undetermined"]:
            of = {}
            if options["benchmark"]:
                of = {"benchmark": options["benchmark"]}
            chosen |= Q(closed_at=None, language=UNDETERMINED, kind=Case.Kind.WORK, **of)
        done = 0
        for number in Case.objects.filter(chosen).order_by("pk").values_list("pk", flat=True):
            try:
                if language is not None:
                    services.set_language(number, language, actor=OPERATOR)
                if specialty is not None:
                    services.set_specialty(number, specialty, actor=OPERATOR)
            except ShownError as error:
                raise CommandError(f"case {number}: {error}") from error
            done += 1
        if not done:
            raise CommandError("No case was chosen.")
        self.stdout.write(f"{done} cases")
