"""Reports that people wait for."""

from dataclasses import asdict

from django.core.cache import cache

from evaluation.errors import StillCounting
from evaluation.models import Run
from evaluation.numbers.report_numbers import Options
from evaluation.reports import queries, tasks
from generation.jobs.live_status import live_workers
from review.common.waking import wake

COUNTING = 60  # seconds until another worker is asked, as the first may have been lost


def shown_report(run: Run, options: Options | None = None) -> queries.Report:
    """The report of a run for a page, a download or the API.

    Raises StillCounting, and asks a worker, if the numbers of a large run take seconds: a web
    process would answer nobody else meanwhile. Without a worker they are counted here.
    """
    report = queries.report(run, options)
    if report.is_waiting and leave_to_worker(report):
        raise StillCounting
    return report


def leave_to_worker(report: queries.Report) -> bool:
    """Have a worker count a report. Returns whether there is one."""
    if not live_workers(runs_tasks=True).exists():
        return False
    if cache.add(f"counting:{report.numbers_key}", True, COUNTING):
        wake(tasks.count_report, report.run.pk, asdict(report.options))
    return True
