"""Reports as data frames of pandas, which is optional."""

from typing import TYPE_CHECKING

from mhb_client.shapes import Report

if TYPE_CHECKING:
    import pandas


def frame(report: Report, facet: str = "") -> "pandas.DataFrame":
    """The rates of a report, a row for each model and data set; of a facet, for each value too.

    Further rates and the counts of verdicts are columns such as `rates.NAME.low`. `attrs` names run
    and release, and has the notice of simulated models.
    """
    import pandas

    if facet and facet not in report["facets"]:
        raise KeyError(f"The report has no facet {facet}, but {', '.join(report['facets'])}.")
    lines = report["overall"]
    if facet:
        lines = report["facets"][facet]
    rows = pandas.json_normalize([dict(line) for line in lines])
    rows.attrs = {
        "run": report["run"],
        "release": f"{report['release']}@{report['release_version']}",
        "notice": report.get("notice", ""),
    }
    return rows
