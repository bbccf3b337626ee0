"""What the overview shows of runs: those in progress, and those that need a person. Read only."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from evaluation.models import Run
from evaluation.runs import queries
from generation.jobs import overview


def _named(run: Run) -> tuple[Run, str, str]:
    name = _("Run %(n)s on %(release)s") % {"n": run.pk, "release": run.release}
    return run, name, reverse("evaluation:run", args=[run.pk])


def needing_runs(_shown: object) -> Mapping[str, Any]:
    """Runs that are paused, or whose budget is nearly spent."""
    return {"jobs": [_named(run) for run in overview.needing(Run.objects.select_related("release"))]}


def going_runs(_shown: object) -> Mapping[str, Any]:
    """Runs in progress: one statement."""
    runs = overview.going(queries.watched_runs())
    return {"jobs": [(*_named(run), queries.progress(run), queries.live_of(run)) for run in runs]}
