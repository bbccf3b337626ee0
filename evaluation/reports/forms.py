"""The options of a report in the query string of an address."""

from collections.abc import Mapping

from evaluation import registry
from evaluation.errors import WrongWeights
from evaluation.models import Run
from evaluation.numbers.report_numbers import Options
from evaluation.reports import queries

WEIGHT = "weight-"  # before a value: the field of its weight
MAX_WEIGHTS = 50
ON = ("1", "true", "on")  # a box that is ticked


def read_options(query: Mapping[str, str], run: Run) -> tuple[Options, str]:
    """The options in a query, and the error, '' if none.

    `common`, `weights`, `all_ranked`, and `weight-VALUE` for the weight of one value.
    """
    protocol = registry.protocol(run.release.benchmark)
    common = query.get("common", "") in ON
    all_ranked = query.get("all_ranked", "") in ON
    rows = []
    for name, number in query.items():
        if name.startswith(WEIGHT):
            rows.append(f"{name.removeprefix(WEIGHT)}:{number}")
    weights = ",".join([query.get("weights", "")[:500], *rows[:MAX_WEIGHTS]])
    try:
        return queries.parse_options(protocol, common=common, weights=weights, all_ranked=all_ranked), ""
    except WrongWeights as error:
        return Options(common, all_ranked=all_ranked), str(error)
