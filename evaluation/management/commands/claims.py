"""claims RUN [[--policy NAME ...] [--again answers,verdicts] [--policy-samples N] [--budget MONEY] [--yes] [--wait]]"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from evaluation.claims import queries
from evaluation.models import PolicyAnswer, Run
from evaluation.runs import adding
from evaluation.runs.estimate import estimate_checks
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import POLICY_SAMPLES, RunSettings
from generation.management.command_line import (
    add_launch_options,
    given_settings,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from review.management.step_command import StepCommand

POLICIES, BUDGET = ("policies", "policy_samples"), ("budget_money", "budget_calls")


class Command(StepCommand):
    help = (
        "Show what a run claims of its benchmark, each claim with its measurement and what would contradict it. Asks no"
        " model, unless --policy names fixed texts for the run's judge to judge first, or --again what to do a second"
        " time: 'answers' asks the models again, 'verdicts' judges the same answers again, both on a sample of"
        " --policy-samples of each data set. The exit code is 1 if a measured claim fails."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("--again", action="append", default=[], help="answers, verdicts, or both")
        asked = {*POLICIES, *BUDGET}
        add_launch_options(parser, RunSettings, omit=[name for name in RunSettings.model_fields if name not in asked])

    def step(self, **options: Any) -> dict[str, Any]:
        run = RUNS.get(options["run"])
        given = given_settings(options, RunSettings)
        again = [kind for each in options["again"] for kind in each.split(",")]
        if unknown := set(again) - set(PolicyAnswer.Again.values):
            raise CommandError(f"--again: {', '.join(sorted(unknown))}; known: {', '.join(PolicyAnswer.Again.values)}")
        if given.get("policies") or again:
            budget = {name: given[name] for name in BUDGET if name in given}
            policies, samples = given.get("policies", ()), given.get("policy_samples", POLICY_SAMPLES)
            checks = adding.Checks(run=run, policies=policies, again=again, samples=samples, **budget)
            is_new = bool(adding.check_checks(checks))
            if is_new and (refused := unconfirmed_estimate(self, estimate_checks(checks), options)):
                return refused
            run = adding.add_checks(checks)
            progress = progress_of(self, RUNS, run, wait=options["wait"])
            run = RUNS.get(run.pk)
            if run.status != Run.Status.FINISHED:
                state = {"status": run.status, "paused": run.paused_detail}
                return {
                    "run": run.pk,
                    "judged": progress.policies.done,
                    "texts": progress.policies.total,
                    "calls": progress.policies.calls,
                    "cost": progress.policies.cost,
                    **state,
                    "failed": paused_exit_code(run),
                }
        found = queries.claims_of_run(run)
        return {**found.as_json(), "failed": found.failed}
