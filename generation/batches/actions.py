"""The actions that launch a batch, and that decide on the drafts which its checks stopped."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from generation.batches import launch, queries, services
from generation.batches.estimate import estimate_batch
from generation.batches.kind import BATCHES
from generation.batches.serializers import BatchSettingsSerializer, batch_settings
from generation.comparisons.api import ComparisonSettingsSerializer
from generation.errors import UnknownCheck, WrongPlan
from generation.management.command_line import (
    LaunchOptions,
    launch_body,
    like_help,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from generation.models import Batch, Draft
from generation.models.work import Work
from generation.recipes import registry
from review.common.commands import ALTERNATIVES, Action, Shell


class Generate(Action):
    """Launch a batch: run the benchmark's recipe over records of a source."""

    generator: str | None = Field(None, description="the endpoint of the role 'generator'")
    plan: str | None = Field(None, description="a JSON file of trap targets, a plan's name, or 'none'")
    skip: Annotated[Sequence[str], Shell(metavar="CHECK")] = Field(
        (), description="skip this check; repeat for several"
    )
    like: Annotated[int | None, Shell(metavar="BATCH")] = Field(None, description=like_help("batch"))
    options: Annotated[
        dict[str, Any],
        LaunchOptions(settings=launch.BatchSettings, omit=("further_endpoints", "plan", "checks")),
    ]

    def perform(self) -> dict[str, Any]:
        settings = self._settings()
        if refused := unconfirmed_estimate(self, estimate_batch(settings), self.options):
            return refused
        if settings.compare is None:
            return self._start(launch.launch_batch(settings))
        pair = launch.launch_comparison(settings)
        arms = [self._start(batch) for batch in pair.batches.order_by("arm")]
        return {"comparison": pair.pk, "batches": arms, "failed": sum(arm["failed"] for arm in arms)}

    def _start(self, batch: Batch) -> dict[str, Any]:
        wait = self.options["wait"]
        progress = progress_of(self, BATCHES, batch, wait=wait)
        failures = []
        failed = Draft.objects.filter(batch=batch, status=Work.Status.FAILED).select_related("record")
        for row in failed[:20]:
            failures.append({"record": row.record.external_id, "error": row.error, "detail": row.detail})
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
            "one_model": [f"{role} and {other}: {model}" for role, other, model in queries.shared_roles(batch)],
            "status": batch.status,
            "paused": batch.paused_detail,
            "failures": failures,
        }

    def _settings(self) -> launch.BatchSettings:
        """The settings of the batch."""
        benchmark = self.options["benchmark"] or ""
        if not benchmark and self.like is not None:
            benchmark = BATCHES.get(self.like).benchmark
        given = {"plan": self._plan(), "checks": self._checks(benchmark), **self._roles(benchmark)}
        serializer = BatchSettingsSerializer
        if self.options["compare"] is not None:
            serializer = ComparisonSettingsSerializer
        return batch_settings(launch_body(serializer, self.options, given, self.like))

    def _checks(self, benchmark: str) -> list[str] | None:
        """The checks that are not skipped; None if none is. Raises UnknownCheck."""
        known: Sequence[str] = ()
        if benchmark:
            known = registry.check_names(benchmark)
        if unknown := set(self.skip).difference(known):
            raise UnknownCheck(f"{', '.join(sorted(unknown))}; known: {', '.join(known)}")
        if not self.skip:
            return None
        return [name for name in known if name not in self.skip]

    def _roles(self, benchmark: str) -> dict[str, Any]:
        """The endpoints of --generator and --role.

        For the role that several endpoints may play, those after the first are listed under
        `further_endpoints`.
        """
        roles: dict[str, str] = {}
        if self.generator:
            roles["generator"] = self.generator
        several = ""
        if benchmark:
            several = registry.recipe(benchmark).multiple_role
        further_endpoints = []
        for role, name in self.options["roles"] or ():
            if role == several and role in roles:
                further_endpoints.append(name)
            else:
                roles[role] = name
        given: dict[str, Any] = {"further_endpoints": further_endpoints or None}
        if roles or not self.like:
            given["roles"] = roles
        return given

    def _plan(self) -> Any:
        """The name of a plan, or the targets in a file. Raises WrongPlan."""
        if self.plan is None or not self.plan.endswith(".json"):
            return self.plan
        try:
            return json.loads(Path(self.plan).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise WrongPlan(f"{self.plan}: {error}") from error


class StoppedDrafts(Action):
    """List the drafts stopped by a check; send one to review (--send-to-review) or discard it."""

    batch: int | None = Field(None, description="only drafts of this batch")
    send_to_review: Annotated[int | None, Shell(section=ALTERNATIVES, metavar="DRAFT")] = None
    discard: Annotated[int | None, Shell(section=ALTERNATIVES, metavar="DRAFT")] = None
    reason: str = Field("", description="the reason, which is recorded")

    def perform(self) -> dict[str, Any]:
        if self.send_to_review is not None:
            version = services.send_to_review(self.send_to_review, actor=None, reason=self.reason)
            gate = Draft.Gate.SENT_TO_REVIEW.value
            return {"draft": self.send_to_review, "gate": gate, "sample": version.sample.key}
        if self.discard is not None:
            row = services.discard_stopped(self.discard, actor=None, reason=self.reason)
            return {"draft": row.pk, "gate": row.gate}
        drafts = Draft.objects.filter(gate=Draft.Gate.STOPPED).select_related("record").order_by("pk")
        if self.batch is not None:
            drafts = drafts.filter(batch=BATCHES.get(self.batch))
        stopped = []
        for row in drafts.defer("data", "record__content", "record__private").iterator():
            stopped.append(
                {"draft": row.pk, "batch": row.batch_id, "record": row.record.external_id, "detail": row.detail}
            )
        return {"stopped": stopped}
