"""Applies the outcomes of reviews to samples. Called by the sweeper, and before a freeze."""

import logging
from collections.abc import Sequence
from dataclasses import asdict

from django.db import InterfaceError, OperationalError, transaction

from generation.models import Rubric, Sample, SampleVersion
from generation.outcomes.regeneration import queue_next
from review.cases import queries as cases_queries
from review.rules.consolidation import SettledRubric
from review.rules.state_machine import Ground, State

log = logging.getLogger(__name__)


def apply_outcomes() -> int:
    """Apply the physicians' decisions to the samples; return how many versions were handled.

    Approved: the rubrics get the wording and severity settled on; those of a case not sampled for
    review stay as they are. Rejected: the next version is queued with the reasons. If no version
    can fix them, the recipe's limit is reached, or the batch was cancelled, the sample is
    discarded.

    The version's own status says whether it was handled, so this can be killed and repeated at any
    point. A version that cannot be handled (a bug, a missing benchmark) is logged and left as it
    is; the others are handled.
    """
    waiting = SampleVersion.objects.filter(status=SampleVersion.Status.IN_REVIEW, case__closed_at__isnull=False)
    handled = 0
    for pk in list(waiting.order_by("pk").values_list("pk", flat=True)):
        try:
            with transaction.atomic():
                version = (  # with its sample, which others lock before its versions
                    waiting.select_for_update(of=("self", "sample"), skip_locked=True, no_key=True)
                    .select_related("sample", "case")
                    .filter(pk=pk)
                    .first()
                )
                if version is not None:
                    _apply_outcome(version)
                    handled += 1
        except (OperationalError, InterfaceError):  # the database is unreachable
            raise
        except Exception:
            log.exception("the review outcome of version %s could not be applied", pk)
    return handled


def _apply_outcome(version: SampleVersion) -> None:
    sample, case = version.sample, version.case
    outcome = cases_queries.settled_case(case)
    if outcome.state is State.APPROVED:
        version.status, sample.status = SampleVersion.Status.APPROVED, Sample.Status.APPROVED
        version.citations = [asdict(citation) for citation in outcome.citations]
        if outcome.ground != Ground.UNREVIEWED:
            _settle_rubrics(version, outcome.rubrics)
    elif outcome.state is State.WITHDRAWN:
        version.status, sample.status = SampleVersion.Status.WITHDRAWN, Sample.Status.WITHDRAWN
    else:
        version.status, version.reasons = SampleVersion.Status.REJECTED, list(outcome.reasons)
        is_queued = outcome.reducible and queue_next(version)
        if is_queued:
            sample.status = Sample.Status.REGENERATING
        else:
            sample.status = Sample.Status.DISCARDED
    version.save(update_fields=["status", "reasons", "citations"])
    sample.save(update_fields=["status"])


def _settle_rubrics(version: SampleVersion, settled: Sequence[SettledRubric]) -> None:
    rubrics = {rubric.key: rubric for rubric in version.rubrics.all()}
    for final in settled:
        rubric = rubrics.get(final.key) or Rubric(
            version=version, key=final.key, criterion=final.criterion, traps=list(final.tags), added=True
        )
        rubric.approved, rubric.severity, rubric.removed = final.criterion, final.severity, final.removed
        rubric.severities = list(final.severities)
        rubric.save()
