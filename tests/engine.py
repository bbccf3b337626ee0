"""The engines in tests: own source files, the simulated models over real HTTP, and each step of the loop as one call."""

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
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from generation.sources import services as sources_services
from mhb_site.benchmarks.mhb import simulate
from review.models import User
from tests.review.approve import approve_everything

SEED = 11
CANARY = "canary GUID 5d1e0000-made-up"
TARGETS = ("sim-careful", "sim-average", "sim-reckless")


# ---------------------------------------------------------------------------------------------------------- fixtures


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that is quick to try again."""
    monkeypatch.setattr("generation.llm.gateway.BACKOFF_BASE", 0.001)
    monkeypatch.setattr("generation.llm.gateway.RECONNECT_CAP", 0.01)
    monkeypatch.setattr("generation.llm.admission_control.PAUSE", 0.001)


@pytest.fixture(scope="session")
def models() -> Iterator[str]:
    """The base URL of simulated models without faults."""
    with simulated() as url:
        yield url


def simulated(*faults: str, **options: Any) -> AbstractContextManager[str]:
    """Simulated models of their own; yields their base URL."""
    return run_in_background(
        make_app([simulate.SCRIPT], **{"seed": SEED, "faults": faults, "retry_after": 0.001, **options})
    )


def served(url: str) -> dict[str, Any]:
    """What the simulated models at `url` themselves counted."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as answer:
        return dict(json.load(answer))


# ------------------------------------------------------------------------------------------------------------- files


def _own_words(number: int) -> str:
    """So many words that no two records are taken for one another."""
    dice = Random(number)
    return " ".join(f"I note {dice.randrange(10**6)} {dice.choice(('days', 'steps', 'beats'))}." for _ in range(24))


def conversation(number: int, **changes: Any) -> dict[str, Any]:
    """A HealthBench record of our own."""
    first, *others = TURNS
    return {
        "prompt_id": str(uuid.UUID(int=number)),
        "prompt": [
            {**first, "content": f"This is case {number}. {first['content']} {_own_words(number)}"},
            *others,
        ],
        "rubrics": [],
        "example_tags": [],
        "ideal_completions_data": None,
        "canary": CANARY,
        **changes,
    }


def report(number: int, **changes: Any) -> dict[str, Any]:
    """A PMC-Patients record of our own."""
    return {
        "patient_id": str(number),
        "patient_uid": f"{number}-1",
        "PMID": str(number),
        "title": f"Fever {number}",
        "patient": f"This is the report of patient {number}. {REPORT} {_own_words(number)}",
        "age": [[60.0, "year"]],
        "gender": "M",
        **changes,
    }


def conversations_file(path: Path, *records: dict[str, Any] | int) -> Path:
    """A HealthBench file of these records, or of as many as the number says."""
    rows = _numbered(records, conversation)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def reports_file(path: Path, *records: dict[str, Any] | int) -> Path:
    """A PMC-Patients file (V2) of these records, or of as many as the number says."""
    path.write_text(json.dumps(_numbered(records, report)), encoding="utf-8")
    return path


def _numbered(records: Sequence[dict[str, Any] | int], make: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for record in records:
        rows += [make(number) for number in range(1, record + 1)] if isinstance(record, int) else [record]
    return rows


# ------------------------------------------------------------------------------------------------------------- steps


def imported(path: Path, name: str = "own", format_name: str = "healthbench") -> Source:
    """The source that a file was read into."""
    return sources_services.run_import(
        sources_services.start_import(path, format_name=format_name, name=name).pk
    ).source


def endpoint(url: str, model: str = "sim-generator", **fields: Any) -> Endpoint:
    """The endpoint of this name (the model's, unless said otherwise), made if there is none.

    Where much is in flight much is stored at once: a run of hundreds of rows takes a third less than with 16.
    """
    name = fields.pop("name", model.replace("+", "-").replace("@", "-").replace(".", "-"))
    found = Endpoint.objects.filter(name=name).first()
    if found is None:
        about = {"simulated": model.startswith("sim-"), "concurrency": 64, **fields}
        found = Endpoint(name=name, url=url, model=model, **about)
        # As the service does, but for the constraints, which it has the database check one by one before storing.
        found.full_clean(validate_unique=False, validate_constraints=False)
        found.save()
    return found


def launched(source: Source, generator: Endpoint, limit: int | None = None, **options: Any) -> Batch:
    """A batch without the checks before review, which `tests.generation.drafts.test_pre_review_checks` is about."""
    return launch.launch_batch(
        BatchSettings(benchmark="mhb", source=source, roles={"generator": generator}, limit=limit, checks=(), **options)
    )


def generated(source: Source, generator: Endpoint, limit: int | None = None) -> Batch:
    """A batch that was launched and worked on to its end."""
    batch = launched(source, generator, limit)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch


def statuses(batch: Batch) -> Counter[str]:
    """How many drafts of a batch are in each status."""
    return Counter(Draft.objects.filter(batch=batch).values_list("status", flat=True))


def held(job: Batch | Run) -> Lane:
    """A lane that lives on a job, as somebody else's."""
    now = timezone.now()
    return Lane.objects.create(job=job, until=now + lease(), started_at=now)


def approved(source: Source, url: str, physicians: Sequence[User], limit: int | None = None) -> list[Sample]:
    """Samples of a source that physicians approved as they were."""
    batch = generated(source, endpoint(url), limit)
    approve_everything(physicians)
    samples_services.apply_outcomes()
    return list(Sample.objects.filter(batch=batch, status=Sample.Status.APPROVED).order_by("pk"))


def frozen(folder: Path, url: str, physicians: Sequence[User], *, conversations: int = 0, reports: int = 0) -> Release:
    """A release of so many of our own conversations and reports."""
    if conversations:
        path = conversations_file(folder / "own.jsonl", conversations)
        assert len(approved(imported(path, "own-conversations"), url, physicians)) == conversations
    if reports:
        path = reports_file(folder / "own.json", reports)
        assert len(approved(imported(path, "own-reports", "pmc-patients"), url, physicians)) == reports
    return releases_services.freeze_release("own", benchmark="mhb")


def launched_run(release: Release, url: str, *targets: str, judge: str = "sim-judge", **options: Any) -> Run:
    chosen = [endpoint(url, model) for model in targets]
    return runs_services.launch_run(RunSettings(release, chosen, endpoint(url, judge), **options))


def evaluated(release: Release, url: str, *targets: str, judge: str = "sim-judge", **options: Any) -> Run:
    """A run that was worked on to its end."""
    run = launched_run(release, url, *targets, judge=judge, **options)
    work.work_on_run(run.pk)
    run.refresh_from_db()
    return run


def calls(of: str | Job) -> list[Call]:
    """The ledger lines of one row of work (``draft:3``) or of a whole job, in order."""
    lines = Call.objects.filter(job=of) if isinstance(of, Job) else Call.objects.filter(subject=of)
    return list(lines.order_by("pk"))


# ---------------------------------------------------------------------------------------------------------- commands


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
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def json(self, name: str, *arguments: object) -> dict[str, Any]:
        """The one object that a command prints with --json; it must succeed."""
        code, out, err = self(name, *arguments, "--json")
        assert code == 0, err or out
        found: dict[str, Any] = json.loads(out)
        return found

    def refused(self, name: str, *arguments: object) -> str:
        """The sentence with which a command fails; nothing else is printed, least of all a traceback."""
        code, out, err = self(name, *arguments, "--json")
        assert code == 1, (code, out, err)
        assert out == ""
        assert "Traceback" not in err
        assert len(err.strip().splitlines()) == 1, err
        return err.strip()


@pytest.fixture
def manage(db: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Manage:
    """`manage("import_source", ...)`. Nothing is sent to a broker, and the test's own connection stays open."""
    monkeypatch.setattr("django.core.management.base.connections.close_all", lambda: None)
    # The system checks: before each command, and longer than most. `make test` asks them once.
    monkeypatch.setattr(BaseCommand, "check", lambda *_, **__: None)
    monkeypatch.setattr("celery.app.task.Task.delay", lambda *arguments: None)
    return Manage(capsys)
