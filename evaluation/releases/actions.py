"""The action that publishes results."""

import re
from argparse import ArgumentTypeError
from typing import Annotated, Any

from django.core.management.base import CommandError
from django.urls import reverse
from pydantic import Field

from evaluation.releases import services
from generation.releases import queries as releases_queries
from review.common.commands import Action, Positional, Shell
from review.rules.permissions import OPERATOR


def coverage_named(text: str) -> dict[str, int]:
    """The numbers of '142/241'."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if match is None:
        raise ArgumentTypeError("write SETTLED/CRITERIA, such as 142/241")
    return {"settled": int(match[1]), "criteria": int(match[2])}


class PublishResults(Action):
    """Publish the results of a release on a page that anyone can read, or withdraw that page."""

    release: Positional[str] = Field(description="NAME, or NAME@VERSION")
    withdraw: bool = Field(False, description="withdraw the public page, or incomplete results")
    run: int | None = Field(None, description="publish incomplete results of this run, beside their coverage …")
    model: str | None = Field(None, description="… those of this model")
    coverage: Annotated[dict[str, int] | None, Shell(parse=coverage_named, metavar="SETTLED/CRITERIA")] = Field(
        None, description="their coverage, as the results say it"
    )

    def perform(self) -> dict[str, Any]:
        release = releases_queries.release(self.release)
        address: str | None = reverse("public-release-version", args=[release.name, release.version])
        if self.run is None and self.model is None:
            if self.withdraw:
                services.withdraw(release, actor=OPERATOR)
                address = None
            else:
                services.publish(release, actor=OPERATOR)
            return {"release": str(release), "public": address}
        if self.run is None or self.model is None:
            raise CommandError("Give both --run and --model.")
        if self.withdraw:
            services.withdraw_incomplete(release, run=self.run, model=self.model, actor=OPERATOR)
        elif self.coverage is None:
            raise CommandError("Name the coverage of these results with --coverage SETTLED/CRITERIA.")
        else:
            services.publish_incomplete(release, run=self.run, model=self.model, **self.coverage, actor=OPERATOR)
        return {"release": str(release), "public": address, "run": self.run, "model": self.model}
