"""The action on open cases."""

import re
from collections.abc import Sequence
from typing import Annotated

from django.core.management.base import CommandError
from django.db.models import Q
from pydantic import Field

from review.cases import services
from review.cases.forms import LANGUAGE_CODE
from review.common.commands import Action, Shell
from review.errors import ShownError
from review.models import Case
from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import OPERATOR


class SetCase(Action):
    """Set which language or specialty the reviewers of open cases must have; '' lifts the limit."""

    has_json = False

    cases: Annotated[Sequence[int], Shell(positional=True, metavar="ID")] = ()
    undetermined: bool = Field(False, description="all open cases of unknown language")
    benchmark: str = Field("", description="with --undetermined: of this benchmark alone")
    language: str | None = Field(None, description="ISO 639-1")
    specialty: str | None = None

    def perform(self) -> str:
        if self.language is None and self.specialty is None:
            raise CommandError("Give --language, --specialty or both.")
        if self.language and not re.fullmatch(LANGUAGE_CODE, self.language):
            raise CommandError(f"--language expects a code of ISO 639-1, not {self.language!r}")
        done = 0
        for number in Case.objects.filter(self._chosen()).order_by("pk").values_list("pk", flat=True):
            try:
                if self.language is not None:
                    services.set_language(number, self.language, actor=OPERATOR)
                if self.specialty is not None:
                    services.set_specialty(number, self.specialty, actor=OPERATOR)
            except ShownError as error:
                raise CommandError(f"case {number}: {error}") from error
            done += 1
        if not done:
            raise CommandError("No case was chosen.")
        return f"{done} cases"

    def _chosen(self) -> Q:
        """The cases to change. Raises CommandError."""
        known = set(Case.objects.filter(pk__in=self.cases).values_list("pk", flat=True))
        for number in self.cases:
            if number not in known:
                raise CommandError(f"There is no case {number}.")
        chosen = Q(pk__in=known)
        if self.undetermined:
            undetermined = Q(closed_at=None, language=UNDETERMINED, kind=Case.Kind.WORK)
            if self.benchmark:
                undetermined &= Q(benchmark=self.benchmark)
            chosen |= undetermined
        return chosen
