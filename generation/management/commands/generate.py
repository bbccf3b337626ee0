"""generate --benchmark mhb --source NAME --limit N --generator ENDPOINT [--role ROLE=ENDPOINT] [--like BATCH]
[--draw first|random|stratified:FIELD] [--seed N] [--where FIELD=VALUE] [--again]
[--plan FILE.json|paper|none] [--preset NAME] [--set NAME=VALUE] [--prompts SET] [--compare SET] [--skip CHECK]
[--budget MONEY] [--budget-calls N] [--yes] [--wait]"""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches.estimate import estimate_batch
from generation.batches.kind import BATCHES
from generation.batches.serializers import BatchSettingsSerializer, batch_settings
from generation.comparisons.api import ComparisonSettingsSerializer
from generation.errors import UnknownCheck, WrongPlan
from generation.management.command_line import (
    add_launch_options,
    add_like_option,
    launch_body,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from generation.models import Batch, Draft
from generation.models.work import Work
from generation.recipes import registry
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Launch a batch: run the benchmark's recipe over records of a source."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--generator", help="the endpoint of the role 'generator'")
        parser.add_argument("--plan", help="a JSON file of trap targets, a plan's name, or 'none'")
        parser.add_argument("--skip", action="append", metavar="CHECK", help="skip this check; repeat for several")
        add_like_option(parser, BATCHES)
        add_launch_options(parser, launch.BatchSettings, omit=("further_endpoints", "plan", "checks"))

    def step(self, **options: Any) -> dict[str, Any]:
        settings = _settings(options)
        estimate = estimate_batch(settings)
        if refused := unconfirmed_estimate(self, estimate, options):
            return refused
        if settings.compare is None:
            return self._start(launch.launch_batch(settings), wait=options["wait"])
        pair = launch.launch_comparison(settings)
        arms = [self._start(batch, wait=options["wait"]) for batch in pair.batches.order_by("arm")]
        return {"comparison": pair.pk, "batches": arms, "failed": sum(arm["failed"] for arm in arms)}

    def _start(self, batch: Batch, *, wait: bool) -> dict[str, Any]:
        progress = progress_of(self, BATCHES, batch, wait=wait)
        return {
            "batch": batch.pk,
            "drafts": progress.total,
            "done": progress.done,
            "dropped": progress.dropped,
            "open": progress.open,
            "calls": progress.calls,
            "cost": progress.cost,
            "stopped": Draft.objects.filter(batch=batch, gate=Draft.Gate.STOPPED).count(),
            "draw": batch.draw,
            "preset": batch.preset,
            "plan": batch.plan.get("name", ""),
            "changed": {name: batch.settings[name] for name in batch.changed},
            "failed": progress.failed or paused_exit_code(batch) or int(wait and not progress.done),
            "one_model": [f"{role} and {other}: {model}" for role, other, model in batches_queries.shared_roles(batch)],
            "status": batch.status,
            "paused": batch.paused_detail,
            "failures": [
                {"record": row.record.external_id, "error": row.error, "detail": row.detail}
                for row in Draft.objects.filter(batch=batch, status=Work.Status.FAILED).select_related("record")[:20]
            ],
        }


def _settings(options: dict[str, Any]) -> launch.BatchSettings:
    """The settings of the batch, from the options."""
    benchmark = options["benchmark"] or ("" if options["like"] is None else BATCHES.get(options["like"]).benchmark)
    known, skipped = registry.check_names(benchmark) if benchmark else (), set(options["skip"] or ())
    if unknown := skipped - set(known):
        raise UnknownCheck(f"{', '.join(sorted(unknown))}; known: {', '.join(known)}")
    given = {
        "plan": _plan(options["plan"]),
        "checks": [name for name in known if name not in skipped] if skipped else None,
        **_roles(options, benchmark),
    }
    serializer = BatchSettingsSerializer if options["compare"] is None else ComparisonSettingsSerializer
    return batch_settings(launch_body(serializer, options, given))


def _roles(options: dict[str, Any], benchmark: str) -> dict[str, Any]:
    """The endpoints of --generator and --role.

    For the role that several endpoints may play, those after the first are listed under `further_endpoints`.
    """
    roles = {}
    if options["generator"]:
        roles = {"generator": options["generator"]}
    several, further_endpoints = registry.recipe(benchmark).multiple_role if benchmark else "", list[str]()
    for role, name in options["roles"] or ():
        if role == several and role in roles:
            further_endpoints.append(name)
        else:
            roles[role] = name
    return {"roles": roles or (None if options["like"] else {}), "further_endpoints": further_endpoints or None}


def _plan(plan: str | None) -> Any:
    """The name of a plan, or the targets in a file. Raises WrongPlan."""
    if plan is None or not plan.endswith(".json"):
        return plan
    try:
        return json.loads(Path(plan).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WrongPlan(f"{plan}: {error}") from error
