"""The actions that try probes."""

from typing import Any

from pydantic import Field

from generation.probes import queries, services
from generation.probes.measuring import ProbeReport
from generation.probes.stored import as_shown
from generation.releases import queries as releases_queries
from generation.sources import queries as sources_queries
from review.common.commands import Action, Positional


class ProbeRelease(Action):
    """Show whether right and wrong answers of a release can be told apart without being read, as
    found at its freeze; a release frozen before is probed now. Asks no model. The exit code is 1
    if they can.
    """

    name: Positional[str] = Field(description="NAME, or NAME@VERSION")
    again: bool = Field(False, description="probe it once more, whatever is stored")

    def perform(self) -> dict[str, Any]:
        release = releases_queries.release(self.name)
        report = None
        if not self.again:
            report = queries.report(release)
        if report is None:
            report = services.probed(release)
        return {"release": release.reference, **_found(report)}


class ProbeSource(Action):
    """Try whether right and wrong answers of a source can be told apart without being read:
    published pairs, statements, and questions with options. Asks no model. The exit code is 1 if
    they can.
    """

    name: Positional[str] = Field(description="the source's name")

    def perform(self) -> dict[str, Any]:
        source = sources_queries.source(self.name)
        return {"source": source.name, **_found(services.probed(source))}


def _found(report: ProbeReport) -> dict[str, Any]:
    """What the probes tell; `failed` is 1 if any tells."""
    return {**as_shown(report, with_held_out=True), "failed": int(report.tells is True)}
