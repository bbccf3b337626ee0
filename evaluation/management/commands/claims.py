"""claims RUN [--policy NAME ... [--policy-samples N] [--budget MONEY] [--budget-calls N] [--yes] [--wait]]"""

from argparse import ArgumentParser
from typing import Any

from evaluation.claims import queries
from evaluation.models import Run
from evaluation.runs import adding
from evaluation.runs.estimate import estimate_policies
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.jobs.settings import declared
from generation.management.command_line import (
    add_launch_options,
    given_settings,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from review.management.step_command import StepCommand
from review.rules.shown_values import shown

POLICIES, BUDGET = ("policies", "policy_samples"), ("budget_money", "budget_calls")
PROGRESS = "judged=policies.done texts=policies.total calls=policies.calls cost=policies.cost"


class Command(StepCommand):
    help = (
        "Show what a run claims of its benchmark, each claim with its measurement and what would contradict it. Asks no"
        " model, unless --policy names fixed texts for the run's judge to judge first. The exit code is 1 if a measured"
        " claim fails."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        asked = {*POLICIES, *BUDGET}
        add_launch_options(
            parser, RunSettings, omit=[each.name for each in declared(RunSettings) if each.name not in asked]
        )

    def step(self, **options: Any) -> dict[str, Any]:
        run = RUNS.get(options["run"])
        given = given_settings(options, RunSettings)
        if given.get("policies"):
            texts = {name: given[name] for name in POLICIES if name in given}
            settings = adding.check_policies(run, **texts)
            if settings.policies and (refused := unconfirmed_estimate(self, estimate_policies(settings), options)):
                return refused
            run = adding.add_policies(run.pk, **texts, **{name: given[name] for name in BUDGET if name in given})
            progress = progress_of(self, RUNS, run, wait=options["wait"])
            run = RUNS.get(run.pk)
            if run.status != Run.Status.FINISHED:
                state = shown(run, "status paused=paused_detail")
                return {"run": run.pk, **shown(progress, PROGRESS), **state, "failed": paused_exit_code(run)}
        found = queries.claims_of_run(run)
        return {**found.as_json(), "failed": found.failed}
