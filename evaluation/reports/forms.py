"""What an address asks of a report."""

from collections.abc import Mapping

from evaluation import registry
from evaluation.errors import WrongWeights
from evaluation.models import Run
from evaluation.reports import queries
from evaluation.reports.numbers.report_numbers import Options


def read_options(asked: Mapping[str, str], run: Run) -> tuple[Options, str]:
    """What an address asks for (`common`, `weights`, `all_ranked`), and what is wrong with it, '' for nothing."""
    protocol = registry.protocol(run.release.benchmark)
    common, all_ranked = (asked.get(name, "") in ("1", "true", "on") for name in ("common", "all_ranked"))
    weights = asked.get("weights", "")[:500]
    try:
        return queries.options_from(protocol, common=common, weights=weights, all_ranked=all_ranked), ""
    except WrongWeights as wrong:
        return Options(common, all_ranked=all_ranked), str(wrong)
