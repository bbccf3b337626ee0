"""The action that withdraws samples."""

from typing import Annotated, Any

from pydantic import Field

from generation.models import Release
from generation.samples import errata
from review.common.commands import Action, Shell


class WithdrawSample(Action):
    """Withdraw an approved sample: it is left out of later releases, and releases that contain it
    show an erratum.
    """

    sample: Annotated[str, Shell(positional=True, metavar="ID")] = Field(
        description="the sample's number, or its key in a release"
    )
    reason: str

    def perform(self) -> dict[str, Any]:
        erratum = errata.withdraw(errata.sample_id_of(self.sample), actor=None, reason=self.reason)
        releases = Release.objects.filter(samples__version__sample=erratum.sample_id).order_by("pk").distinct()
        return {
            "sample": erratum.sample.key,
            "reason": erratum.reason,
            "releases": [release.reference for release in releases],
        }
