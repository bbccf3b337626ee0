"""What an import takes, beside its file, its format and its source."""

from django.utils.translation import gettext_noop as _
from pydantic import Field

from generation.jobs.settings import Settings


class ImportSettings(Settings):
    """How known records change, and the terms of a new source; an existing one keeps its own."""

    update: bool = Field(
        False,
        title=_("Update records that differ"),
        description=_("A record with a known ID and another content becomes its next revision. Samples keep theirs."),
    )
    licence: str = Field(
        "",
        title=_("Licence or terms of use"),
        description=_("For example: internal use, or CC BY 4.0. Data cards and releases name it."),
        max_length=200,
    )
    citation: str = Field(
        "", title=_("Origin"), description=_("Whose cases these are, or how to cite them."), max_length=1000
    )
    restrictions: str = Field(
        "",
        title=_("Restrictions"),
        description=_("What the owner forbids. If you fill this in, exports say that the texts must not be published."),
        max_length=1000,
    )
