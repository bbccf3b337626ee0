"""The actions that launch a run and change which models it asks."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from django.core.management.base import CommandError
from pydantic import Field

from evaluation.judges.costs import judging_costs
from evaluation.runs import adding, leaving, queries, services
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from evaluation.runs.serializers import RunSettingsSerializer, run_settings
from evaluation.runs.settings import RunSettings
from generation.endpoints import queries as endpoints_queries
from generation.jobs.settings import Budget
from generation.management.command_line import (
    LaunchOptions,
    given_settings,
    launch_body,
    like_help,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from review.common.commands import Action, Positional, Shell


class Evaluate(Action):
    """Evaluate models on a release: a judge decides each rubric, or code reads the answers."""

    judge: Sequence[str] = Field(
        (), description="required unless code reads the benchmark's answers; repeat for a panel"
    )
    like: Annotated[int | None, Shell(metavar="RUN")] = Field(None, description=like_help("run"))
    options: Annotated[dict[str, Any], LaunchOptions(settings=RunSettings, omit=("judge", "further_judges"))]

    def perform(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if self.judge:
            given = {"judge": self.judge[0], "further_judges": list(self.judge[1:])}
        settings = run_settings(launch_body(RunSettingsSerializer, self.options, given, self.like))
        if refused := unconfirmed_estimate(self, estimate_run(settings), self.options):
            return {**refused, "judging": [asdict(way) for way in judging_costs(settings)]}
        run = services.launch_run(settings)
        progress = progress_of(self, RUNS, run, wait=self.options["wait"])
        failed = paused_exit_code(run)
        if self.options["wait"]:
            failed = queries.count_not_done(run)
        return {
            "run": run.pk,
            "release": str(run.release),
            "responses": progress.responses.total,
            "responses_done": progress.responses.done,
            "responses_failed": progress.responses.failed,
            "judgments": progress.judgments.total,
            "judged": progress.judgments.done,
            "unjudged": progress.judgments.failed,
            "votes": progress.votes.total,
            "calls": progress.responses.calls,
            "cost": progress.responses.cost,
            "simulated": queries.is_simulated(run),
            "status": run.status,
            "paused": run.paused_detail,
            "failed": failed,
        }


class AddModel(Action):
    """Add a model to a finished run: same release, settings and judge. No other model is asked
    again.
    """

    run: Positional[int]
    endpoint: Positional[str]
    options: Annotated[dict[str, Any], LaunchOptions()]

    def perform(self) -> dict[str, Any]:
        run, endpoint = RUNS.get(self.run), endpoints_queries.endpoint(self.endpoint)
        estimate = estimate_run(adding.check_model(run, endpoint))
        if refused := unconfirmed_estimate(self, estimate, self.options):
            return refused
        run = adding.add_model(run.pk, endpoint, **given_settings(self.options, Budget))
        progress = progress_of(self, RUNS, run, wait=self.options["wait"])
        failed = paused_exit_code(run)
        if self.options["wait"]:
            failed = queries.count_not_done(run)
        return {
            "run": run.pk,
            "models": list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)),
            "responses": progress.responses.total,
            "responses_done": progress.responses.done,
            "judgments": progress.rubrics_total,
            "judged": progress.judgments.done,
            "calls": progress.responses.calls,
            "cost": progress.responses.cost,
            "status": run.status,
            "paused": run.paused_detail,
            "failed": failed,
        }


class LeaveOut(Action):
    """Leave a model, or a judge of a panel, out of a run that goes on without it, or add it again.
    Safe to repeat.
    """

    run: Positional[int]
    endpoint: Positional[str]
    because: Annotated[str, Shell(metavar="TEXT")] = Field("", description="why; the report says so")
    role: Annotated[str, Shell(choices=[queries.TARGET, queries.JUDGE])] = Field("", description="if it has both")
    again: bool = Field(False, description="add a model again that was left out")

    def perform(self) -> dict[str, Any]:
        run, endpoint = RUNS.get(self.run), endpoints_queries.endpoint(self.endpoint)
        if self.again and self.because:
            raise CommandError("--because belongs to leaving out, not to --again.")
        if self.again:
            run = leaving.add_again(run.pk, endpoint, role=self.role)
        else:
            run = leaving.leave_out(run.pk, endpoint, because=self.because, role=self.role)
        models = []
        for state in queries.model_states(run):
            models.append(
                {
                    "model": state.name,
                    "role": state.role,
                    "done": state.done,
                    "open": state.open,
                    "failed": state.failed,
                    "not_asked": state.not_asked,
                }
            )
        left_out = [tested.endpoint.name for tested in queries.left_out(run)]
        return {"run": run.pk, "status": run.status, "left_out": left_out, "models": models}
