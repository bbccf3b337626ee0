"""What an address asks of a report."""

from collections.abc import Mapping

from evaluation import registry
from evaluation.errors import WrongWeights
from evaluation.models import Run
from evaluation.reports import queries
from evaluation.reports.numbers.kept import Options


def read_options(asked: Mapping[str, str], run: Run) -> tuple[Options, str]:
    """What an address asks for (`common`, `weights`), and what is wrong with it, '' for nothing."""
    protocol = registry.protocol(run.release.benchmark)
    common = asked.get("common", "") in ("1", "true", "on")
    try:
        return queries.options_from(protocol, common=common, weights=asked.get("weights", "")[:500]), ""
    except WrongWeights as wrong:
        return Options(common), str(wrong)
