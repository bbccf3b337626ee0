"""A database from before the engine: what was asked by then is counted, what was under way goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.review.audit.test_audit_migration import NOON, ROOT, ROWS, database

pytestmark = [pytest.mark.processes, pytest.mark.plain]

EVE = "2026-02-28 23:59:59+00:00"
LEASE = {"token": None, "lease_until": None, "tries": 0, "error": "", "detail": ""}
CASE = next(row for table, row in ROWS if table == "review_case")


def call(pk: int, job: str, subject: str, **changes: Any) -> tuple[str, dict[str, Any]]:
    """A line of the ledger as it was: 100 tokens in, 10 out."""
    plain = {
        "id": pk, "job": job, "subject": subject, "endpoint_id": 1, "model": "m", "prompt": "mhb/inject_dialogue@1",
        "sent": "{}", "text": "said", "reasoning": "", "finish_reason": "stop", "tokens_in": 100, "tokens_out": 10,
        "tokens_cached": 40, "tokens_reasoning": 5, "cost": "0.00011", "seconds": 0.5, "attempt": 1, "error": "",
        "detail": "", "http_status": 200, "simulated": False, "started_at": NOON,
    }  # fmt: skip
    return "generation_call", {**plain, **changes}


FAILED = {"text": "", "tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "tokens_reasoning": 0, "cost": 0}
OLD: list[tuple[str, dict[str, Any]]] = [
    ("review_case", CASE),
    (
        "generation_source",
        {"id": 1, "name": "s", "format": "healthbench", "label": "S", "licence": "MIT", "citation": "", "restrictions": "",
         "created_at": NOON},
    ),
    *(
        (
            "generation_sourcerecord",
            {"id": pk, "source_id": 1, "external_id": str(pk), "title": "t", "language": "en", "content": "{}",
             "private": "{}"},
        )
        for pk in (1, 2)
    ),
    *(
        (
            "generation_endpoint",
            {"id": pk, "name": name, "url": "http://models.example/v1", "model": "m", "key_env": "", "temperature": None,
             "max_tokens": None, "price_in": 1, "price_out": 1, "concurrency": 8, "timeout": 120, "simulated": False,
             "created_at": NOON},
        )
        for pk, name in ((1, "maker"), (2, "judge"))
    ),
    *(
        (
            "generation_batch",
            {"id": pk, "benchmark": "mhb", "source_id": 1, "status": status, "lane_until": until, "created_by_id": None,
             "created_at": NOON, "finished_at": None},
        )
        for pk, status, until in ((1, "running", NOON), (2, "cancelled", None))
    ),
    ("generation_batchrole", {"id": 1, "batch_id": 1, "role": "generator", "endpoint_id": 1}),
    (
        "generation_sample",
        {"id": 1, "benchmark": "mhb", "task": "dialogue", "batch_id": 1, "record_id": 1, "status": "approved",
         "created_at": NOON},
    ),
    *(
        (
            "generation_draft",
            {"id": pk, "batch_id": 1, "record_id": pk, "parent_id": None, "sample_id": sample, "version": 1, "step": 0,
             "data": "{}", "status": status, **LEASE},
        )
        for pk, sample, status in ((1, 1, "done"), (2, None, "queued"))
    ),
    (
        "generation_sampleversion",
        {"id": 1, "sample_id": 1, "number": 1, "draft_id": 1, "case_id": 1, "title": "t", "content": "{}", "status": "approved",
         "reasons": "[]", "citations": "[]", "simulated": False, "created_at": NOON},
    ),
    (
        "generation_rubric",
        {"id": 1, "version_id": 1, "key": "R1", "criterion": "c", "traps": '["A1", "C2"]', "approved": "", "severity": "",
         "removed": False, "added": False},
    ),
    call(1, "batch:1", "draft:1", error="ServerError", http_status=500, started_at=EVE, **FAILED),
    call(2, "batch:1", "draft:1", attempt=2),
    call(3, "run:1", "response:1", prompt=""),
    call(4, "run:1", "judgment:1", endpoint_id=2, error="BrokenReply"),
    (
        "generation_release",
        {"id": 1, "name": "r", "version": 1, "benchmark": "mhb", "samples_count": 1, "rubrics_count": 2, "counts": "{}",
         "generators": "[]", "sources": "[]", "simulated": False, "sha256": "0" * 64, "created_by_id": None,
         "created_at": NOON, "trail_end": 0},
    ),
    (
        "generation_releasedsample",
        {"id": 1, "release_id": 1, "position": 0, "version_id": 1, "key": "k", "task": "dialogue",
         "exported": '{"content": {}}'},
    ),
    *(
        (
            "generation_releasedrubric",
            {"id": pk, "sample_id": 1, "key": f"R{pk}", "criterion": "c", "traps": "[]", "severity": ""},
        )
        for pk in (1, 2)
    ),
    (
        "evaluation_run",
        {"id": 1, "release_id": 1, "judge_id": 2, "judge_temperature": None, "status": "running", "lane_until": None,
         "created_by_id": None, "created_at": NOON, "finished_at": None},
    ),
    *(("evaluation_runendpoint", {"id": pk, "run_id": 1, "endpoint_id": pk}) for pk in (1, 2)),
    *(
        (
            "evaluation_response",
            {"id": pk, "run_id": 1, "endpoint_id": pk, "sample_id": 1, "variant": "", "text": "said" if said else "",
             "reasoning": "", "call_id": said, "status": "done" if said else "queued", **LEASE},
        )
        for pk, said in ((1, 3), (2, None))
    ),
    *(
        (
            "evaluation_judgment",
            {"id": pk, "run_id": 1, "response_id": 1, "rubric_id": pk, "verdict": verdict, "explanation": "", "status": status,
             **LEASE},
        )
        for pk, verdict, status in ((1, "", "failed"), (2, "met", "done"))
    ),
]  # fmt: skip

LOOK = """
import json
from evaluation.runs import queries, services
from evaluation.models import Run
from generation.batches import sweeping as generation
run = Run.objects.get()
due, found, whole = services.sweep(), queries.live_of(run), queries.progress(run)
print(json.dumps({
    "due": [generation.sweep().batches, due], "errors": found.errors, "ended": whole.ended, "total": whole.total,
    "again": services.retry_failed(run.pk),
}))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_rows_from_before(kind: str, tmp_path: Path) -> None:
    """The migrations are taken back first: so their way back is known to exist."""
    with database(kind, tmp_path) as (environment, sql):

        def manage(*arguments: str) -> str:
            command = [sys.executable, "manage.py", *arguments]
            env = {**os.environ, **environment, "MHB_LANES": "1"}
            done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        manage("migrate", "-v0")
        manage("migrate", "evaluation", "0001_initial", "-v0")
        manage("migrate", "generation", "0004_release_trail", "-v0")
        for table, row in OLD:
            places = ", ".join(["%s"] * len(row))
            sql(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())
        manage("migrate", "-v0")

        totals = "calls, failed, hits, tokens_in, tokens_out, tokens_cached, tokens_reasoning, cost * 100000"
        kept = "status, paused_because, budget_calls, budget_money, fresh"
        assert _plain(sql(f"SELECT {totals}, {kept} FROM generation_batch ORDER BY id")) == [
            (2, 1, 0, 100, 10, 40, 5, 11, "running", "", None, None, False),
            (0, 0, 0, 0, 0, 0, 0, 0, "cancelled", "", None, None, False),
        ]
        assert _plain(sql(f"SELECT {totals}, {kept}, judging, transport, rubrics_total FROM evaluation_run")) == [
            (2, 1, 0, 200, 20, 80, 10, 22, "running", "", None, None, False, "per-rubric", "live", 4)
        ]
        assert sql("SELECT job, error, calls FROM generation_joberror ORDER BY job") == [
            ("batch:1", "ServerError", 1),
            ("run:1", "BrokenReply", 1),
        ]
        days = _plain(
            sql(
                "SELECT endpoint_id, day, calls, hits, failed, tokens_in, cost * 100000 FROM generation_endpointday"
                " ORDER BY endpoint_id, day"
            )
        )
        assert [(of, str(day), *sums) for of, day, *sums in days] == [
            (1, "2026-02-28", 1, 0, 1, 0, 0),
            (1, "2026-03-01", 2, 0, 0, 200, 22),
            (2, "2026-03-01", 1, 0, 1, 100, 11),
        ]
        assert sql("SELECT DISTINCT identity, hit_of_id, attempt_id FROM generation_call") == [("", None, None)]
        assert _plain(sql("SELECT generator, prompt, traps FROM generation_sampleversion")) == [
            ("maker", "mhb/inject_dialogue@1", ["A1", "C2"])
        ]
        assert _plain(sql("SELECT batches, batch_discount, rpm FROM generation_endpoint")) == [(False, 0.5, None)] * 2
        for table in ("response", "judgment"):
            assert _plain(sql(f"SELECT DISTINCT via_id, live FROM evaluation_{table}")) == [(None, False)]

        said = json.loads(manage("shell", "-v0", "-c", LOOK))
        assert said == {"due": [[1], [1]], "errors": [["BrokenReply", 1]], "ended": 3, "total": 6, "again": 1}


def _plain(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows without what the two databases say differently: numbers, truths and JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("["):
            return json.loads(value)
        if value is None or isinstance(value, (str, bool, list)) or hasattr(value, "year"):
            return value
        return round(float(value), 6)

    return [tuple(plain(value) for value in row) for row in rows]
