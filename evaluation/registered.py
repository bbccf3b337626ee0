"""What runs add to the pages and workers below them."""

from evaluation.models import Run
from evaluation.runs import queries
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import cache_warming
from generation.jobs import kinds
from review.common import page_slots


def _cache_report(run: Run) -> None:
    """Compute the numbers of a run, so that its report finds them cached."""
    # Imported here, because only workers need these modules: other processes start faster without.
    from evaluation.judges import summary
    from evaluation.reports import headlines
    from evaluation.reports import queries as reports_queries

    report = reports_queries.report(run)
    summary.as_dict(run, report.numbers.judged)
    headlines.cache_headline(report)


kinds.register(RUNS)
cache_warming.register(_cache_report)
page_slots.register(
    "release", "evaluation/runs/_on_release.html", lambda release: {"runs": queries.runs().filter(release=release)}
)
