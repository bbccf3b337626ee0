"""generate --benchmark mhb --source NAME --limit N --generator ENDPOINT [--role ROLE=ENDPOINT] [--wait]"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from generation import queries, services, tasks
from generation.cli import Step, add_budget, paused, wait
from generation.models import Batch, Draft
from generation.work import Work
from review.permissions import OPERATOR, Can, require


class Command(Step):
    help = "Launch a batch: the benchmark's recipe over records of a source."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--benchmark", required=True)
        parser.add_argument("--source", required=True)
        parser.add_argument("--limit", type=int, help="at most so many records (default: all that are left)")
        parser.add_argument("--generator", help="endpoint for the role 'generator'")
        parser.add_argument("--role", action="append", default=[], metavar="ROLE=ENDPOINT", help="any other role")
        add_budget(parser)
        parser.add_argument("--wait", action="store_true", help="follow it to its end")

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.PRODUCE)
        roles = {"generator": options["generator"]} if options["generator"] else {}
        for binding in options["role"]:
            role, _, name = binding.partition("=")
            if not name:
                raise CommandError(f"--role wants ROLE=ENDPOINT, not {binding!r}")
            roles[role] = name
        batch = services.launch_batch(
            benchmark=options["benchmark"],
            source=queries.source(options["source"]),
            roles={role: queries.endpoint(name) for role, name in roles.items()},
            limit=options["limit"],
            budget_money=options["budget"],
            budget_calls=options["budget_calls"],
            fresh=options["fresh"],
        )
        tasks.wake(tasks.work_on_batch, batch.pk)
        if options["wait"]:
            wait(
                self,
                is_over=lambda: not Batch.objects.filter(pk=batch.pk, status=Batch.Status.RUNNING).exists(),
                work=lambda: (services.sweep(), services.work_on_batch(batch.pk)),
                percent=lambda: queries.batch_progress(batch).percent,
            )
        progress = queries.batch_progress(batch)
        batch.refresh_from_db()
        return {
            "batch": batch.pk,
            "drafts": progress.total,
            "done": progress.done,
            "dropped": progress.dropped,
            "failed": progress.failed or paused(batch),
            "open": progress.queued + progress.running,
            "calls": progress.calls,
            "cost": progress.cost,
            "status": batch.status,
            "paused": batch.paused_detail,
            "failures": [
                {"record": row.record.external_id, "error": row.error, "detail": row.detail}
                for row in Draft.objects.filter(batch=batch, status=Work.Status.FAILED).select_related("record")[:20]
            ],
        }
