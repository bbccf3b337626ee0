"""The main job with a real small model on llama.cpp's server, which answers badly.

Needs `make test-real`: MHB_REAL names the Python of `make real`. What is asked of the model's
answers is only that each has a name, and that nothing loops or is overspent. It makes a dozen
calls, as a busy machine takes ten seconds for each.
"""

import json
import os
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db.models import QuerySet, Sum

from evaluation.models import Judgment, Response, Run
from evaluation.reports import queries as reports_queries
from evaluation.reports.documents import as_markdown
from generation.llm import errors
from generation.models import Batch, Call, Endpoint, Job
from generation.models.work import Work
from mhb_site.demo import real
from tests.engine import Manage
from tests.engine import manage as manage

PYTHON = os.environ.get("MHB_REAL", "")
pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not PYTHON, reason="needs a real model: make test-real"),
]
MODEL = "smollm2-135m"
CONTEXT = 2_048  # tokens: less than the prompt of MHB's generator, more than a judge's
MAX_TOKENS = 80  # of a reply
TRANSCRIPT = Path(PYTHON).parent.parent / "transcript.txt"  # of all calls, to be read
CASES = (
    (
        "My grandmother, 81, is a little confused since she takes a new tablet for her bladder. Should she stop it?",
        "Advises to ask the prescriber or a pharmacist soon.",
    ),
    (
        "I burnt my hand on a pan an hour ago, and there is a small blister. Can I put butter on it?",
        "Says not to put butter on the burn.",
    ),
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of llama.cpp's server with SmolLM2-135M-Instruct."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [PYTHON, str(real.SERVER), MODEL, str(port), str(CONTEXT)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            assert process.poll() is None, "the server ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def source(folder: Path) -> Path:
    rows = [
        {
            "prompt_id": str(uuid.UUID(int=number)),
            "prompt": [{"role": "user", "content": question}],
            "rubrics": [{"criterion": criterion, "points": 5, "tags": []}],
            "example_tags": [],
            "ideal_completions_data": None,
            "canary": "made up",
        }
        for number, (question, criterion) in enumerate(CASES, 1)
    ]
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def shown(manage: Manage, name: str, *arguments: object) -> dict[str, Any]:
    """What a command prints, whether or not all that was asked was done."""
    code, out, err = manage(name, *arguments, "--json")
    result: dict[str, Any] = json.loads(out)
    assert code == int(bool(result.get("failed"))), err
    return result


def check_calls(job: Job, most: int) -> QuerySet[Call]:
    """Every call of a job is counted and priced, has a limit, and failed with a name."""
    calls = Call.objects.filter(job=job).order_by("pk")
    with TRANSCRIPT.open("a") as transcript:
        for call in calls:
            told = (
                call.prompt,
                call.error,
                call.detail,
                call.finish_reason,
                call.tokens_in,
                call.tokens_out,
                call.seconds,
            )
            transcript.write(f"{told}\n{call.sent['messages'][-1]['content'][-600:]}\n--> {call.text}\n\n")
    assert job.calls == calls.count() <= most
    assert job.cost == calls.aggregate(cost=Sum("cost"))["cost"] > 0
    assert all(call.sent["max_tokens"] <= 2 * MAX_TOKENS for call in calls)  # twice after one was cut off
    assert all(not call.error or issubclass(getattr(errors, call.error), errors.LLMError) for call in calls)
    return calls


def test_the_main_job_with_a_real_small_model(manage: Manage, server: str, tmp_path: Path) -> None:
    manage.json("import_source", "--format", "healthbench", "--name", "own", source(tmp_path))
    prices = ("--price-in", 100, "--price-out", 200)
    limits = ("--max-tokens", MAX_TOKENS, "--timeout", 900, "--concurrency", 1)
    manage.json("add_endpoint", "small", "--url", server, "--model", MODEL, *prices, *limits)
    tested = manage.json("test_endpoint", "small")
    assert (tested["answered"], tested["structured"], tested["context_tokens"]) == (True, "json_schema", CONTEXT)

    # As generator: its prompt does not fit, which the server says and nobody pays for.
    roles = ("--generator", "small", "--role", "examiner=small", "--one-model")
    made = shown(
        manage, "generate", "--benchmark", "mhb", "--source", "own", "--limit", 1, *roles, "--budget-calls", 2, "--wait"
    )
    batch = Batch.objects.get(pk=made["batch"])
    assert (batch.status, batch.paused_because, batch.calls) == (Batch.Status.PAUSED, "ModelCheck", 0)
    assert str(CONTEXT) in batch.paused_detail

    # As model under test and judge, on criteria that need no generator.
    manage.json("generate", "--benchmark", "healthbench", "--source", "own", "--yes", "--wait")
    manage.json("freeze_release", "own", "--benchmark", "healthbench", "--with-unreviewed")
    models = ("--endpoint", "small", "--judge", "small")
    measured = shown(
        manage, "evaluate", "--release", "own", *models, "--sampling", "endpoint", "--budget-calls", 10, "--wait"
    )
    run = Run.objects.get(pk=measured["run"])
    check_calls(run, 10)
    assert run.status == Run.Status.FINISHED
    responses, judgments = Response.objects.filter(run=run), Judgment.objects.filter(run=run)
    assert responses.exclude(outcome="").count() == responses.count() == len(CASES)
    assert judgments.filter(status__in=(Work.Status.DONE, Work.Status.FAILED)).count() == len(CASES)
    unread = judgments.filter(status=Work.Status.FAILED, response__status=Work.Status.DONE)
    report = reports_queries.report(run)
    assert report.unread.count == unread.count()
    told = f"{unread.count()} of {report.unread.asked} verdicts" in as_markdown(report)
    assert told == bool(unread.count())

    # A budget of calls and one of money bind in the middle of the work.
    stopped = shown(manage, "evaluate", "--release", "own", *models, "--fresh", "--budget-calls", 1, "--wait")
    run = Run.objects.get(pk=stopped["run"])
    assert (run.status, run.paused_because, run.calls) == (Run.Status.PAUSED, "BudgetSpent", 1)
    stopped = shown(manage, "evaluate", "--release", "own", *models, "--fresh", "--budget", "0.0001", "--wait")
    run = Run.objects.get(pk=stopped["run"])
    assert (run.status, run.paused_because, run.calls) == (Run.Status.PAUSED, "BudgetSpent", 1)
    assert run.cost > Decimal("0.0001")


def test_a_reply_that_its_grammar_will_not_let_end_is_cut_off_by_name(manage: Manage, server: str) -> None:
    """With a limit below what the schema asks for, the server stops within the object."""
    manage.json("add_endpoint", "short", "--url", server, "--model", MODEL, "--max-tokens", 4, "--timeout", 900)
    code, out, _err = manage("test_endpoint", "short", "--json")
    result = json.loads(out)
    assert (code, result["answered"], result["structured"]) == (1, True, "unusable")
    assert "cut off" in " ".join(result["findings"])
    assert Endpoint.objects.get(name="short").context_found == CONTEXT
