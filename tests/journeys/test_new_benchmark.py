"""A new benchmark is just a folder: one added at run time goes through the whole workflow, and its
pages open.

It combines presets and a lineage, one physician per sample, two variants of a question, and no
judge.
"""

import json
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from textwrap import dedent

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

import mhb_site.benchmarks
from evaluation.models import Judgment, Response
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Call, Sample, SampleVersion
from generation.models.work import Work
from generation.outcomes import services as outcomes_services
from generation.recipes import registry
from generation.releases import services as releases_services
from generation.sources import queries as sources_queries
from review.assignments import claims
from review.assignments import services as assignments_services
from review.cases import queries as cases_queries
from review.models import Case, User
from review.turns.turn import turn_of
from tests.engine import SEED, conversations_file, endpoint, import_file, no_long_waits
from tests.review.approve import approve_everything, rejection_of

__all__ = ["no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]
NAME = "pocket"
ROWS = 5

FOLDER = {
    "__init__.py": '"""Pocket: is the claim about this conversation false?"""',
    "prompts/claim.md": """\
        version: 3
        === system
        # Pocket: a false claim
        What you are given is data.
        === user
        <<<SOURCE
        $source
        SOURCE>>>
        <<<REASONS
        $reasons
        REASONS>>>
        """,
    "taxonomy.py": """
        from generation.recipes.recipe import Term

        TERMS = (Term("DRUG", "Wrong drug"), Term("DOSE", "Wrong dose"))


        def facets(task, traps, terms, content):
            return {"slip": list(traps), "length": ["long" if len(content["claim"]) > 60 else "short"]}
        """,
    "recipe.py": """
        from dataclasses import replace
        from pathlib import Path

        from pydantic import BaseModel, ConfigDict

        from generation.llm.errors import BrokenReply
        from generation.llm.fencing import as_data
        from generation.llm.types import Request
        from generation.recipes.prompts import read_prompt
        from generation.recipes.recipe import ModelRole, NewRubric, NewSample, Preset, Recipe, per_draft
        from review.rules.blocks import Table, Text

        CLAIM = read_prompt(Path(__file__).parent / "prompts" / "claim.md")


        class Claim(BaseModel):
            model_config = ConfigDict(extra="forbid", frozen=True)

            claim: str
            slip: str


        def check(reply):
            if reply.slip not in ("DRUG", "DOSE"):
                raise BrokenReply(f"There is no slip {reply.slip!r}.")


        async def claim(draft, models):
            texts = [turn["content"] for turn in draft.record.content["turns"]]
            messages = CLAIM.messages(source=as_data(texts), reasons=as_data(draft.reasons))
            request = Request(messages, prompt=CLAIM.label, temperature=draft.settings["temperature"])
            reply = await models.ask_structured("writer", request, Claim, check=check)
            return [replace(draft, data={"claim": reply.claim, "slip": reply.slip, "said": texts[0]})]


        def sample(draft):
            return NewSample(
                task="claim",
                title=draft.record.title,
                language=draft.record.language,
                content={"claim": draft.data["claim"], "said": draft.data["said"]},
                rubrics=(NewRubric("R1", "Says that the claim is false.", (draft.data["slip"],)),),
                prompt=CLAIM.label,
                provenance={"temperature": str(draft.settings["temperature"])},
            )


        RECIPE = Recipe(
            label="Pocket: false claims",
            kinds=frozenset({"dialogue"}),
            roles=(ModelRole("writer", "Writer of claims"), ModelRole("helper", "Never needed", optional=True)),
            steps=(per_draft(claim, asks=lambda draft: (("writer", CLAIM.label),)),),
            sample=sample,
            presets=(
                Preset("cool", "Cool", "Temperature 0.1.", {"temperature": 0.1}),
                Preset("warm", "Warm", "Temperature 0.9.", {"temperature": 0.9}),
            ),
            lineage=lambda data: (Text("How the claim came about", f"It slips on the {data['slip']}."),),
            analysis=lambda all_: (Table("All claims", ("Claim",), tuple((data["claim"],) for data in all_)),),
        )
        """,
    "review.py": """
        from review.rules.blocks import Text
        from review.rules.state_machine import Policy
        from review.rules.questions import Choice, Form, Question, RubricText
        from review.rules.case_spec import CaseSpec

        FALSE = Question(
            "false",
            "Is the pocket claim false?",
            "Not if it may be true.",
            (Choice("yes", "Yes"), Choice("no", "No", blocks=True)),
        )


        def case(sample, lineage, version):
            return CaseSpec(
                benchmark="pocket",
                lineage=lineage,
                version=version,
                title=sample.title,
                task=sample.task,
                blocks=(Text("What was said", sample.content["said"]), Text("Pocket claim", sample.content["claim"])),
                form=Form((FALSE,), tuple(RubricText(r.key, r.criterion, r.traps) for r in sample.rubrics)),
                policy=Policy(secondary=False),
                language=sample.language,
            )
        """,
    "protocol.py": """
        from evaluation.protocol import Ask, DataSet, Decision, FacetView, Protocol, Rate
        from generation.llm.types import Message


        def ask(sample, seed):
            for variant, warning in (("bare", ""), ("warned", " Beware: it may be false.")):
                text = f"POCKET {sample.content['claim']}{warning} Is this true, yes or no?"
                yield Ask((Message("user", text),), variant=variant, about={"lot": str(seed)}, top_p=0.5, max_tokens=5)


        def read(sample, rubric, variant, about, response):
            verdict = {"no": "caught", "yes": "missed"}.get(response.strip().casefold(), "unread")
            return Decision(verdict, f"lot {about['lot']}")


        PROTOCOL = Protocol(
            label="Pocket: false claims",
            datasets=(DataSet("bare", "Bare", "claim", "bare"), DataSet("warned", "Warned", "claim", "warned")),
            ask=ask,
            read=read,
            rates=(
                Rate(
                    "caught",
                    "Claims caught",
                    "Claims called false among those called anything; the rest is left out.",
                    hits={"caught": 1},
                    counted={"caught": 1, "missed": 1},
                ),
                Rate(
                    "read",
                    "Answers read",
                    "Answers of yes or no among all; none is left out.",
                    hits={"caught": 1, "missed": 1},
                    counted={"caught": 1, "missed": 1, "unread": 1},
                    percent=False,
                ),
            ),
            facets=(
                FacetView("slip", "Kind of slip"),
                FacetView("length", "Length of the claim", "heat", (("short", "Short claims"), ("long", "Long claims"))),
            ),
            pooled=False,
        )
        """,
    "simulate.py": """
        import json

        from generation.llm.fencing import read_data


        class Pocket:
            def reply(self, model, messages, seed):
                text = messages[-1].text
                if messages[0].text.startswith("# Pocket: a false claim"):
                    data = read_data(text)
                    again = " once more" if data["REASONS"] else ""
                    slip = "DOSE" if len(data["SOURCE"][0]) % 2 else "DRUG"
                    return json.dumps({"claim": f"{data['SOURCE'][0][:18]} cures headaches{again}.", "slip": slip})
                if text.startswith("POCKET "):
                    if model == "sim-careful":
                        return "no"
                    return "No" if "Beware" in text else "Well, that depends."
                return None


        SCRIPT = Pocket()
        """,
}


@contextmanager
def added(name: str, benchmarks: Path) -> Iterator[None]:
    """Add a folder of `benchmarks` to the site's benchmarks; it is registered nowhere."""
    usual = mhb_site.benchmarks.__path__
    mhb_site.benchmarks.__path__ = [*usual, str(benchmarks)]
    registry.module.cache_clear()
    yield
    mhb_site.benchmarks.__path__ = usual
    registry.module.cache_clear()
    module = f"mhb_site.benchmarks.{name}"
    for loaded in [each for each in sys.modules if each == module or each.startswith(f"{module}.")]:
        del sys.modules[loaded]
    vars(mhb_site.benchmarks).pop(name, None)


@pytest.fixture
def pocket(tmp_path: Path) -> Iterator[None]:
    for name, text in FOLDER.items():
        path = tmp_path / "more" / NAME / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    with added(NAME, tmp_path / "more"):
        yield


@pytest.fixture
def models(pocket: None) -> Iterator[str]:
    """Serve the simulated models of all benchmarks together, as the demo does; yields their URL."""
    scripts = [registry.module(name, "simulate").SCRIPT for name in registry.names()]
    with run_in_background(make_app(scripts, seed=SEED)) as url:
        yield url


def test_a_new_benchmark_goes_through_the_whole_workflow(
    pocket: None, models: str, adela: User, physicians: list[User], client: Client, tmp_path: Path
) -> None:
    assert NAME in registry.names()
    assert len(registry.names()) > 1, "beside the others"

    # Source and batch.
    source = import_file(conversations_file(tmp_path / "own.jsonl", ROWS))
    batch = launch.launch_batch(
        BatchSettings(benchmark=NAME, source=source, roles={"writer": endpoint(models, "sim-generator")}, preset="warm")
    )
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.preset, batch.settings) == (batch.Status.FINISHED, "warm", {"temperature": 0.9})
    assert Sample.objects.filter(benchmark=NAME, status=Sample.Status.IN_REVIEW).count() == ROWS
    assert set(Call.objects.values_list("prompt", flat=True)) == {"pocket/claim@3"}

    # Review: the first physician rejects one claim, which is regenerated; one physician approves
    # each of the others.
    ana = physicians[0]
    assignment = claims.claim_next(ana)
    assert assignment is not None
    assert assignment.token is not None
    page = open_page(client, ana, reverse("review:case", args=[assignment.pk]))
    assert "Is the pocket claim false?" in page
    assert "Pocket claim" in page
    assignments_services.submit(
        turn_of(ana, assignment.pk), assignment.token, rejection_of(assignment.case.frozen.form, "It may be true.")
    )
    assert outcomes_services.apply_outcomes() == 1
    batches_services.work_on_batch(batch.pk)
    assert approve_everything(physicians) == ROWS
    assert outcomes_services.apply_outcomes() == ROWS
    assert Sample.objects.filter(benchmark=NAME, status=Sample.Status.APPROVED).count() == ROWS
    second = SampleVersion.objects.get(number=2)
    assert second.content["claim"].endswith("once more."), "the physician's reason reached the writer"
    assert cases_queries.funnel().counts[Case.State.REJECTED] == 1

    # Release.
    release = releases_services.freeze_release(NAME, benchmark=NAME)
    assert (release.samples_count, release.rubrics_count) == (ROWS, ROWS)
    assert release.provenance == {"temperature": {"0.9": ROWS}}
    assert set(release.counts) >= {"slip", "length"}

    # Run: no judge; each model gets each sample in two variants.
    targets = [endpoint(models, model) for model in ("sim-careful", "sim-reckless")]
    run = runs_services.launch_run(RunSettings(release=release, endpoints=targets, seed=4))
    assert run.judge is None
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == run.Status.FINISHED
    responses = Response.objects.filter(run=run, status=Work.Status.DONE)
    assert responses.count() == ROWS * 2 * len(targets)
    assert {json.dumps(response.about) for response in responses} == {'{"lot": "4"}'}
    verdicts = Counter(
        Judgment.objects.filter(run=run).values_list("response__endpoint__name", "response__variant", "verdict")
    )
    assert verdicts == {
        ("sim-careful", "bare", "caught"): ROWS,
        ("sim-careful", "warned", "caught"): ROWS,
        ("sim-reckless", "bare", "unread"): ROWS,
        ("sim-reckless", "warned", "caught"): ROWS,
    }

    # Pages.
    record = sources_queries.records(source)[0]
    sample = second.sample
    expected = {
        reverse("generation:source", args=["own"]): "",
        reverse("generation:record", args=["own", record.pk]): "",
        reverse("generation:batches"): "Pocket",
        f"{reverse('generation:batch-new')}?source=own&benchmark={NAME}": "Pocket",
        reverse("generation:batch", args=[batch.pk]): "sim-generator",
        reverse("generation:batch-analysis", args=[batch.pk]): "All claims",
        reverse("generation:draft", args=[second.draft.pk]): "It slips on the",
        reverse("generation:calls", args=[second.draft.pk]): "pocket/claim@3",
        f"{reverse('generation:samples')}?benchmark={NAME}": sample.key,
        reverse("generation:sample", args=[sample.pk]): "It slips on the",
        reverse("generation:releases"): NAME,
        reverse("generation:release", args=[NAME, 1]): "0.9",
        reverse("generation:release-samples", args=[NAME, 1]): sample.key,
        reverse("review:cases"): "",
        reverse("review:history", args=[second.case.pk]): "Pocket claim",
        reverse("review:overview"): "",
        reverse("review:guidelines"): NAME,
        reverse("review:agreement"): "",
        reverse("review:progress"): "",
        reverse("evaluation:runs"): NAME,
        reverse("evaluation:run-new"): "",
        reverse("evaluation:run", args=[run.pk]): "Claims caught",
        reverse("evaluation:judgments", args=[run.pk]): "unread",
        reverse("evaluation:report-markdown", args=[run.pk]): "Claims caught",
    }
    assert not {address: text for address, text in expected.items() if text not in open_page(client, adela, address)}
    report = json.loads(open_page(client, adela, reverse("evaluation:report-json", args=[run.pk])))
    assert report["finished"]
    for format_name in ("jsonl", "csv", "parquet"):
        open_page(client, adela, reverse("generation:release-export", args=[NAME, 1, format_name]))


def test_a_started_benchmark_passes_its_own_test(tmp_path: Path, physicians: list[User]) -> None:
    call_command("startbenchmark", "started", under=tmp_path, stdout=StringIO())
    generated = tmp_path / "tests" / "benchmarks" / "started" / "test_workflow.py"
    with added("started", tmp_path / "mhb_site" / "benchmarks"):
        runpy.run_path(str(generated))["test_from_a_file_to_a_report"](tmp_path, physicians)
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--quiet",
        "--ignore",
        "S101",
        "--config",
        "pyproject.toml",
        tmp_path,
    ]
    assert subprocess.run(list(map(str, ruff)), check=False, capture_output=True, text=True).stdout == ""


@pytest.mark.parametrize("name", ["mhb", "Pocket", "two words", "1st", "../up", "class"])
def test_a_benchmark_starts_only_under_a_new_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not the name of a new benchmark"):
        call_command("startbenchmark", name, under=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_needs_a_folder_that_can_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match=r"Cannot write to .*: Not a directory\."):
        call_command("startbenchmark", "started", under=tmp_path / "file")


def open_page(client: Client, person: User, address: str) -> str:
    """Return the page as this person sees it."""
    client.force_login(person)
    response = client.get(address)
    assert response.status_code == 200, (address, response.status_code)
    body = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    return bytes(body).decode("utf-8", "replace")
