"""The agreement within the panel of a run."""

from evaluation import panel, registry
from evaluation.judges.numbers import agreement
from evaluation.judges.numbers.agreement import PanelReport
from evaluation.models import Judgment
from evaluation.protocol import UNDECIDED
from evaluation.runs.plan import outcomes_of
from evaluation.runs.queries import judges_of
from evaluation.runs.rows.verdicts import RunVerdicts
from generation.models.work import Work


def panel_report(verdicts: RunVerdicts) -> PanelReport | None:
    """The agreement within the panel of a run; None if one judge decided once."""
    run = verdicts.run
    if not run.panel:
        return None
    protocol = registry.protocol(run.release.benchmark)
    states = Judgment.objects.filter(run=run).order_by()
    return agreement.panel_report(
        run.panel,
        [judge.name for judge in judges_of(run)],
        run.judgments_each,
        verdicts.table,
        protocol.known_verdicts,
        verdicts.votes,
        decided=states.filter(status=Work.Status.DONE).count(),
        undecided=states.filter(error=panel.NO_MAJORITY).count(),
        undecided_rule=outcomes_of(run, protocol)[UNDECIDED],
    )
