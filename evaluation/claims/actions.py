"""The action that measures what a run claims."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.core.management.base import CommandError
from pydantic import Field

from evaluation.claims import queries
from evaluation.models import PolicyAnswer, Run
from evaluation.runs import adding
from evaluation.runs.estimate import estimate_checks
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import POLICY_SAMPLES, RunSettings
from generation.jobs.settings import Budget
from generation.management.command_line import (
    LaunchOptions,
    given_settings,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from review.common.commands import Action, Positional

ASKED = {"policies", "policy_samples", *Budget.model_fields}
NOT_ASKED = [name for name in RunSettings.model_fields if name not in ASKED]


class MeasureClaims(Action):
    """Show what a run claims of its benchmark, each claim with its measurement and what would
    contradict it. Asks no model, unless --policy names fixed texts for the run's judge to judge
    first, or --again what to do a second time: 'answers' asks the models again, 'verdicts' judges
    the same answers again, both on a sample of --policy-samples of each data set. The exit code is
    1 if a measured claim fails.
    """

    run: Positional[int]
    again: Sequence[str] = Field((), description="answers, verdicts, or both")
    options: Annotated[dict[str, Any], LaunchOptions(settings=RunSettings, omit=NOT_ASKED)]

    def perform(self) -> dict[str, Any]:
        run = RUNS.get(self.run)
        given = given_settings(self.options, RunSettings)
        again: list[str] = []
        for kinds in self.again:
            again += kinds.split(",")
        if unknown := set(again).difference(PolicyAnswer.Again.values):
            raise CommandError(f"--again: {', '.join(sorted(unknown))}; known: {', '.join(PolicyAnswer.Again.values)}")
        if given.get("policies") or again:
            checks = adding.Checks(
                run=run,
                policies=given.pop("policies", ()),
                again=again,
                samples=given.pop("policy_samples", POLICY_SAMPLES),
                **given,
            )
            is_new = bool(adding.check_checks(checks))
            if is_new and (refused := unconfirmed_estimate(self, estimate_checks(checks), self.options)):
                return refused
            run = adding.add_checks(checks)
            progress = progress_of(self, RUNS, run, wait=self.options["wait"])
            run = RUNS.get(run.pk)
            if run.status != Run.Status.FINISHED:
                return {
                    "run": run.pk,
                    "judged": progress.policies.done,
                    "texts": progress.policies.total,
                    "calls": progress.policies.calls,
                    "cost": progress.policies.cost,
                    "status": run.status,
                    "paused": run.paused_detail,
                    "failed": paused_exit_code(run),
                }
        claims = queries.claims_of_run(run)
        return {**claims.as_json(), "failed": claims.failed}
