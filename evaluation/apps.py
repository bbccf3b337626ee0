from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from evaluation.models import Run


class EvaluationConfig(AppConfig):
    name = "evaluation"

    def ready(self) -> None:
        from evaluation.runs import queries
        from evaluation.runs.kind import RUNS
        from evaluation.runs.rows import cache_warming
        from generation.jobs import kinds
        from review.common import page_slots

        kinds.register(RUNS)
        cache_warming.register(_cache_report)
        on_release = "evaluation/runs/_on_release.html"
        page_slots.register("release", on_release, lambda release: {"runs": queries.runs().filter(release=release)})


def _cache_report(run: "Run") -> None:
    """Compute the numbers of a run, so that its report finds them cached."""
    # Imported here, because only workers need these modules: other processes start faster without.
    from evaluation.judges import summary
    from evaluation.reports import headlines, queries

    report = queries.report(run)
    summary.as_dict(run, report.numbers.judged)
    headlines.cache_headline(report)
