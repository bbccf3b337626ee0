"""The options of a report in the query string of an address."""

from collections.abc import Mapping

from evaluation import registry
from evaluation.errors import WrongWeights
from evaluation.models import Run
from evaluation.reports import queries
from evaluation.reports.numbers.report_numbers import Options


def read_options(query: Mapping[str, str], run: Run) -> tuple[Options, str]:
    """The options in a query (`common`, `weights`, `all_ranked`), and the error, '' if none."""
    protocol = registry.protocol(run.release.benchmark)
    common, all_ranked = (query.get(name, "") in ("1", "true", "on") for name in ("common", "all_ranked"))
    weights = query.get("weights", "")[:500]
    try:
        return queries.parse_options(protocol, common=common, weights=weights, all_ranked=all_ranked), ""
    except WrongWeights as error:
        return Options(common, all_ranked=all_ranked), str(error)
