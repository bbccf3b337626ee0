"""Fixtures for engine tests: source files, simulated models over HTTP, one call for each step."""

import json
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.core.management.base import BaseCommand
from django.utils import timezone

from bench.rows import REPORT, TURNS
from bench.rows import bare_release as bare_release
from bench.rows import drafts as drafts
from evaluation.models import Run
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.engine.task_queue import lease
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Batch, Call, Draft, Endpoint, Job, Lane, Release, Sample, Source
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from generation.sources import services as sources_services
from mhb_site.benchmarks.mhb import simulate
from review.models import User
from tests.generation.llm.helpers import holding_until
from tests.review.approve import approve_everything

SEED = 11
CANARY = "canary GUID 5d1e0000-made-up"
TARGETS = ("sim-careful", "sim-average", "sim-reckless")


# ----------------------------------------------------------------------------------------- fixtures


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between the attempts of a gateway."""
    monkeypatch.setattr("generation.llm.gateway.BACKOFF_BASE", 0.001)
    monkeypatch.setattr("generation.llm.gateway.RECONNECT_CAP", 0.01)
    monkeypatch.setattr("generation.llm.admission_control.PAUSE", 0.001)


@pytest.fixture(scope="session")
def models() -> Iterator[str]:
    """Base URL of simulated models without faults."""
    with simulator() as url:
        yield url


def simulator(*faults: str, **options: Any) -> AbstractContextManager[str]:
    """Run a simulator with these faults and `make_app` options; yields its base URL."""
    return run_in_background(
        make_app([simulate.SCRIPT], **{"seed": SEED, "faults": faults, "retry_after": 0.001, **options})
    )


def simulator_of_calls_at_once(count: int) -> AbstractContextManager[str]:
    """Run a simulator that holds calls until `count` are in flight; yields its base URL.

    So the peak does not depend on how fast a busy machine sends them. The first call of a job goes
    ahead of the others.
    """
    app = make_app([simulate.SCRIPT], seed=SEED, latency=0.02)
    app.middlewares.append(holding_until(count, ahead=1))
    return run_in_background(app)


def simulator_with(script: Any) -> AbstractContextManager[str]:
    """Run a simulator of another script; yields its base URL."""
    return run_in_background(make_app([script], seed=SEED))


def generate(model: str, *more: object) -> tuple[Any, ...]:
    """The command that launches a batch of MHB from 'own', with one model for all roles."""
    options = ("--benchmark", "mhb", "--source", "own", "--generator", model, "--role", f"examiner={model}")
    return "generate", *options, "--one-model", *more


def simulator_stats(url: str) -> dict[str, Any]:
    """Statistics of the simulator at `url`: the requests that it counted itself."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as answer:
        return dict(json.load(answer))


# -------------------------------------------------------------------------------------------- files


def _distinct_text(number: int) -> str:
    """Enough random words that the similarity check does not find two records alike."""
    dice = Random(number)
    return " ".join(f"I note {dice.randrange(10**6)} {dice.choice(('days', 'steps', 'beats'))}." for _ in range(24))


def conversation(number: int, **fields: Any) -> dict[str, Any]:
    """A made-up HealthBench record; `fields` replace its fields."""
    first, *later = TURNS
    return {
        "prompt_id": str(uuid.UUID(int=number)),
        "prompt": [
            {**first, "content": f"This is case {number}. {first['content']} {_distinct_text(number)}"},
            *later,
        ],
        "rubrics": [],
        "example_tags": [],
        "ideal_completions_data": None,
        "canary": CANARY,
        **fields,
    }


def report(number: int, **fields: Any) -> dict[str, Any]:
    """A made-up PMC-Patients record; `fields` replace its fields."""
    return {
        "patient_id": str(number),
        "patient_uid": f"{number}-1",
        "PMID": str(number),
        "title": f"Fever {number}",
        "patient": f"This is the report of patient {number}. {REPORT} {_distinct_text(number)}",
        "age": [[60.0, "year"]],
        "gender": "M",
        **fields,
    }


def conversations_file(path: Path, *records: dict[str, Any] | int) -> Path:
    """Write a HealthBench file; a number stands for that many made-up records."""
    rows = _expand_counts(records, conversation)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def reports_file(path: Path, *records: dict[str, Any] | int) -> Path:
    """Write a PMC-Patients file (V2); a number stands for that many made-up records."""
    path.write_text(json.dumps(_expand_counts(records, report)), encoding="utf-8")
    return path


def _expand_counts(
    records: Sequence[dict[str, Any] | int], make: Callable[[int], dict[str, Any]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for record in records:
        rows += [make(number) for number in range(1, record + 1)] if isinstance(record, int) else [record]
    return rows


# -------------------------------------------------------------------------------------------- steps


def import_file(path: Path, name: str = "own", format_name: str = "healthbench") -> Source:
    """Import a file and return its source."""
    return sources_services.run_import(
        sources_services.start_import(path, format_name=format_name, name=name).pk
    ).source


def endpoint(url: str, model: str = "sim-generator", **fields: Any) -> Endpoint:
    """Get or create an endpoint; it is named after its model unless `name` is given.

    The concurrency is 64 because more calls in flight share a commit: a run of hundreds of rows
    takes a third less time than with 16.
    """
    name = fields.pop("name", model.replace("+", "-").replace("@", "-").replace(".", "-"))
    target = Endpoint.objects.filter(name=name).first()
    if target is None:
        values = {"simulated": model.startswith("sim-"), "concurrency": 64, **fields}
        target = Endpoint(name=name, url=url, model=model, **values)
        # The service also validates the constraints, at the price of a query for each of them.
        target.full_clean(validate_unique=False, validate_constraints=False)
        target.save()
    return target


def makers(url: str, generator: str = "sim-generator") -> dict[str, Endpoint]:
    """The endpoints of MHB's roles; the examiner also plays the checker."""
    return {"generator": endpoint(url, generator), "examiner": endpoint(url, "sim-examiner")}


def launch_batch(source: Source, generator: Endpoint, limit: int | None = None, **options: Any) -> Batch:
    """Launch a batch without pre-review checks; tests.generation.drafts covers those."""
    return launch.launch_batch(
        BatchSettings(benchmark="mhb", source=source, roles={"generator": generator}, limit=limit, checks=(), **options)
    )


def run_batch(source: Source, generator: Endpoint, limit: int | None = None, **options: Any) -> Batch:
    """Launch a batch and work on it until nothing is left to do."""
    batch = launch_batch(source, generator, limit, **options)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch


def status_counts(batch: Batch) -> Counter[str]:
    """Number of drafts of a batch in each status."""
    return Counter(Draft.objects.filter(batch=batch).values_list("status", flat=True))


def create_lane(job: Batch | Run) -> Lane:
    """Create a live lane on a job, as another worker would."""
    now = timezone.now()
    return Lane.objects.create(job=job, worker=f"other:{uuid.uuid4()}", until=now + lease(), started_at=now)


def approve_samples(
    source: Source, url: str, physicians: Sequence[User], limit: int | None = None, **options: Any
) -> list[Sample]:
    """Make samples of a source and have physicians approve them unchanged."""
    batch = run_batch(source, endpoint(url), limit, **options)
    approve_everything(physicians)
    outcomes_services.apply_outcomes()
    return list(Sample.objects.filter(batch=batch, status=Sample.Status.APPROVED).order_by("pk"))


def make_release(
    folder: Path, url: str, physicians: Sequence[User], *, conversations: int = 0, reports: int = 0
) -> Release:
    """Make, approve and freeze this many made-up conversations and reports."""
    if conversations:
        path = conversations_file(folder / "own.jsonl", conversations)
        assert len(approve_samples(import_file(path, "own-conversations"), url, physicians)) == conversations
    if reports:
        path = reports_file(folder / "own.json", reports)
        assert len(approve_samples(import_file(path, "own-reports", "pmc-patients"), url, physicians)) == reports
    return releases_services.freeze_release("own", benchmark="mhb")


def make_release_with_controls(folder: Path, url: str, physicians: Sequence[User]) -> Release:
    """Make, approve and freeze three conversations and two reports, each with a control."""
    sources = (
        import_file(conversations_file(folder / "own.jsonl", 3), "own-conversations"),
        import_file(reports_file(folder / "own.json", 2), "own-reports", "pmc-patients"),
    )
    for source in sources:
        approve_samples(source, url, physicians, preset="controls")
    return releases_services.freeze_release("own", benchmark="mhb", composition=Composition(with_controls=True))


def launch_run(release: Release, url: str, *targets: str, judge: str = "sim-judge", **options: Any) -> Run:
    endpoints = [endpoint(url, model) for model in targets]
    return runs_services.launch_run(
        RunSettings(release=release, endpoints=endpoints, judge=endpoint(url, judge), **options)
    )


def evaluate_release(release: Release, url: str, *targets: str, judge: str = "sim-judge", **options: Any) -> Run:
    """Launch a run and work on it until nothing is left to do."""
    run = launch_run(release, url, *targets, judge=judge, **options)
    work.work_on_run(run.pk)
    run.refresh_from_db()
    return run


def calls(subject: str | Job) -> list[Call]:
    """Ledger lines of one row of work (``draft:3``) or of a whole job, in order."""
    lines = Call.objects.filter(**{"job" if isinstance(subject, Job) else "subject": subject})
    return list(lines.order_by("pk"))


# ----------------------------------------------------------------------------------------- commands


class Manage:
    """Management commands as the shell sees them: exit code, standard output, standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, name: str, *arguments: object) -> tuple[int, str, str]:
        from django.core.management import get_commands, load_command_class

        command: BaseCommand = load_command_class(get_commands()[name], name)
        self._capsys.readouterr()
        code = 0
        try:
            command.run_from_argv(["manage.py", name, *map(str, arguments)])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def json(self, name: str, *arguments: object) -> dict[str, Any]:
        """The object that a command prints with --json; the command must succeed."""
        code, out, err = self(name, *arguments, "--json")
        assert code == 0, err or out
        printed: dict[str, Any] = json.loads(out)
        return printed

    def refusal(self, name: str, *arguments: object) -> str:
        """The one sentence that a failing command prints, with exit code 1 and no traceback."""
        code, out, err = self(name, *arguments, "--json")
        assert code == 1, (code, out, err)
        assert out == ""
        assert "Traceback" not in err
        assert len(err.strip().splitlines()) == 1, err
        return err.strip()


@pytest.fixture
def manage(db: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Manage:
    """`manage("import_source", ...)`: nothing reaches a broker, and the connection stays open."""
    monkeypatch.setattr("django.core.management.base.connections.close_all", lambda: None)
    # System checks take longer than most commands; `make test` runs them once.
    monkeypatch.setattr(BaseCommand, "check", lambda *_, **__: None)
    monkeypatch.setattr("celery.app.task.Task.delay", lambda *arguments: None)
    return Manage(capsys)
