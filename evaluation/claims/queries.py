"""The claims of a run, from its verdicts, its validation and the probes of its release."""

from collections.abc import Mapping
from typing import Any

from evaluation.claims.claims import BenchmarkClaim, Claims, claims_of, unread
from evaluation.judges import summary
from evaluation.models import Run
from evaluation.numbers.late import pl
from evaluation.reports import queries as reports_queries
from evaluation.reports.queries import Report
from evaluation.runs.rows.result_cache import cached, key_of
from evaluation.runs.verdicts import RunVerdicts, policy_frame, twin_frame, verdicts_again
from generation.models import Release
from generation.probes import queries as probes_queries
from generation.probes.labels import PROBES, sentence
from generation.probes.reasons import NoNumber


def claims(run: Run, report: Report, validation: Mapping[str, Any] | None) -> Claims:
    """The claims of a run; kept while nothing of it changes. Asks no model.

    `report`: of the run. `validation`: of its judge, as `summary.validation` gives it.
    """
    probe = probe_claim(run.release)

    def count() -> Claims:
        verdicts = RunVerdicts(run)
        if run.panel:
            votes = verdicts.votes
        else:
            votes = pl.DataFrame()
        compared = report.numbers.comparisons
        frames = policy_frame(run), twin_frame(run), verdicts_again(run)
        return claims_of(verdicts.frame, votes, report.protocol, report.plan, compared, validation, probe, *frames)

    return cached(key_of(run, "claims", report.numbers_key, validation, probe), count, run)


def claims_of_run(run: Run) -> Claims:
    """The claims of a run by itself, with its report and the validation of its judge."""
    return claims(run, reports_queries.report(run), summary.validation(run))


def probe_claim(release: Release) -> BenchmarkClaim:
    """The claim that rests on the probes of a release."""
    found = probes_queries.report(release)
    if found is None:
        why = ""
        if not probes_queries.can_be_probed(release):
            why = sentence(NoNumber("not-labelled"))
        return unread(None, why=why)
    if found.tells is None or found.reason is not None:
        why = ""
        if found.reason is not None:
            why = sentence(found.reason)
        return unread(None, why=why)
    by_name = {result.name: result for result in found.probes}
    best = by_name[found.strongest]
    label = PROBES.get(best.name, best.name)
    ends = best.accuracy, best.low, best.high
    return unread(found.tells, *ends, probe=label, chance=found.chance or 0.5)
