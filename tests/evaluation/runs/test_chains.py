"""Chains of questions that contain earlier answers.

They are asked in order and once, and a question without a usable earlier answer is not asked.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from evaluation import errors, registry
from evaluation.answers import queries as answers_queries
from evaluation.interchange import bundle, rerunning
from evaluation.interchange.programs import verify_run
from evaluation.models import Judgment, Response, Run
from evaluation.numbers.rules import NO_RESPONSE
from evaluation.protocol import Ask, DataSet, Decision, Judging, Protocol, Rate, Rubric, Sample
from evaluation.runs import adding, estimate, services, work
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.engine.task_queue import requeue_expired, take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message, Request
from generation.models import Call, Release
from generation.models.work import Work
from tests.conftest import Clock
from tests.engine import SEED, bare_release, endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
VARIANTS = ("draft", "revision", "summary")


class Verdict(BaseModel):
    """The reply of the judge."""

    good: bool


def ask(sample: Sample, seed: int) -> Sequence[Ask]:
    return [  # deliberately not in the order of the chain
        Ask(_user("Summarize (the revision)"), "summary", after="revision", prompt="relay/summary@1"),
        Ask(_user(f"Draft {sample.key}"), "draft", prompt="relay/draft@1"),
        Ask(_user("Revise (the draft)"), "revision", after="draft", prompt="relay/revision@1"),
    ]


def _user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def ask_on(sample: Sample, asked: Ask, earlier: Mapping[str, str]) -> Ask | None:
    if "nonsense" in earlier[asked.after]:
        return None
    word = {"revision": "Revise", "summary": "Summarize"}[asked.variant]
    return replace(asked, messages=_user(f"{word} {earlier[asked.after]} of {','.join(sorted(earlier))}"))


def judge(sample: Sample, rubric: Rubric, variant: str, text: str) -> Request:
    return Request(_user(f"JUDGE {rubric.key} {variant}: {text}"), prompt=f"relay/judge-{rubric.key}@1")


def read(sample: Sample, rubric: Rubric, variant: str, about: Any, text: str) -> Decision | None:
    return Decision("missing", "") if "void" in text else None


PROTOCOL = Protocol(
    label="Relay",
    datasets=tuple(DataSet(variant, variant, "dialogue", variant) for variant in VARIANTS),
    ask=ask,
    ask_on=ask_on,
    composed=lambda sample, variant, text, earlier: " < ".join([text, *earlier.values()]),
    judge=judge,
    shape=Verdict,
    decide=lambda reply: Decision("good" if reply.good else "bad", ""),
    by_rubric={"R2": Judging(judge, Verdict, lambda reply: Decision("R2", str(reply.good)), frozenset({"summary"}))},
    read=read,
    rates=(Rate("good", "Good", "Good ones.", {"good": 1}, {"good": 1, "bad": 1, "missing": 1}),),
    facets=(),
    outcomes={"failed": "missing", "unasked": "missing"},
    pooled=False,
)


class RelayModels:
    """Simulated models that repeat their question in brackets, and answer "Draft" with `draft`."""

    draft = "a draft"

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        text = messages[-1].text
        if text.startswith("JUDGE"):
            return json.dumps({"good": True})
        return f"{self.draft}-{text.split()[-1]}" if text.startswith("Draft") else f"[{text}]"


@pytest.fixture(autouse=True)
def relay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "protocol", lambda _benchmark: PROTOCOL)


@pytest.fixture
def release(db: None) -> Release:
    """Two samples with two criteria each."""
    return bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)


def relay_models(draft: str = "a draft") -> AbstractContextManager[str]:
    models = RelayModels()
    models.draft = draft
    return run_in_background(make_app([models], seed=SEED, retry_after=0.001))


@pytest.fixture
def url() -> Iterator[str]:
    with relay_models() as address:
        yield address


def settings_of(release: Release, url: str, **options: Any) -> RunSettings:
    return RunSettings(
        release=release, endpoints=[endpoint(url, "sim-average")], judge=endpoint(url, "sim-judge"), **options
    )


def outcome_counts(run: Run) -> Counter[tuple[str, str, str]]:
    """The number of responses by variant, status and outcome."""
    return Counter(Response.objects.filter(run=run).values_list("variant", "status", "outcome"))


def paid_calls(run: Run) -> Counter[str]:
    """The number of paid calls by prompt."""
    return Counter(Call.objects.filter(job=run, hit_of=None).values_list("prompt", flat=True))


def ledger_lines(run: Run) -> Counter[str]:
    """The number of ledger lines by prompt: paid calls and replies reused from the ledger."""
    return Counter(Call.objects.filter(job=run).values_list("prompt", flat=True))


def test_each_question_contains_the_earlier_answers(release: Release, url: str) -> None:
    settings = settings_of(release, url, answers=2)
    estimated = estimate.estimate_run(settings)
    run = services.launch_run(settings)
    before = RUNS.progress(run)
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    assert outcome_counts(run) == {(variant, "done", "answered"): 4 for variant in VARIANTS}
    summary = Response.objects.filter(run=run, variant="summary", repeat=1).select_related("sample")[0]
    first = f"a draft-{summary.sample.key}"
    assert summary.text == f"[Summarize [Revise {first} of draft] of draft,revision]"
    assert summary.after is not None
    assert (summary.after.variant, summary.after.repeat) == ("revision", 1)
    question = answers_queries.question_asked(PROTOCOL, summary, run.seed)
    assert question is not None
    assert question.messages[0].text == f"Summarize [Revise {first} of draft] of draft,revision"

    # The second rubric is decided by its own rule, on summaries only; the judge sees the chain.
    judged = Judgment.objects.filter(run=run).values_list("rubric__key", "response__variant", "verdict")
    assert Counter(judged) == {
        ("R1", "draft", "good"): 4,
        ("R1", "revision", "good"): 4,
        ("R1", "summary", "good"): 4,
        ("R2", "summary", "R2"): 4,
    }
    sent = [str(call.sent) for call in Call.objects.filter(job=run, prompt="relay/judge-R2@1")]
    assert len(sent) == 4
    assert (
        sum(f"summary: [Summarize [Revise {first} of draft] of draft,revision] < [Revise" in text for text in sent) == 2
    )

    # All of it was counted at the launch.
    assert (before.responses.total, before.rubrics_total) == (12, 16)
    assert (run.responses_total, run.rubrics_total) == (12, 16)
    assert {line.prompt: line.requests for line in estimated.lines} == paid_calls(run)


def test_a_kill_between_two_links_loses_nothing(release: Release, url: str, clock: Clock) -> None:
    run = services.launch_run(settings_of(release, url, budget_calls=3))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.PAUSED
    assert outcome_counts(run)["summary", "queued", ""] == 2, "a waiting link is not taken"

    # A worker dies with rows it has taken: they are given back, and later links still wait.
    open_rows = Response.objects.filter(run=run).order_by("pk")
    taken = take(open_rows.exclude(variant="summary"), 2)
    clock.advance(days=1)
    assert requeue_expired(Response) == len(taken)
    life_cycle.change_limits(run.pk, budget_money=None, budget_calls=None)
    jobs_services.resume(run.pk)
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    assert outcome_counts(run) == {(variant, "done", "answered"): 2 for variant in VARIANTS}
    assert paid_calls(run)["relay/draft@1"] == 2, "no link is paid for twice"
    assert paid_calls(run)["relay/revision@1"] == 2


def test_a_link_without_a_usable_earlier_answer_is_unasked_and_costs_no_call(release: Release) -> None:
    with relay_models("nonsense") as url:
        run = services.launch_run(settings_of(release, url))
        work.work_on_run(run.pk)
    assert outcome_counts(run) == {
        ("draft", "done", "answered"): 2,
        ("revision", "failed", "unasked"): 2,
        ("summary", "failed", "unasked"): 2,
    }
    assert set(paid_calls(run)) == {"relay/draft@1", "relay/judge-R1@1"}
    # A retry does not queue the revisions, whose drafts are the same. It queues the summaries,
    # which end again without a call.
    assert jobs_services.retry_failed(run.pk) == 2
    work.work_on_run(run.pk)
    assert outcome_counts(run)["summary", "failed", "unasked"] == 2
    assert Judgment.objects.filter(run=run, error=NO_RESPONSE).count() == 6


def test_a_retry_asks_a_failed_link_and_those_that_follow_it_only(release: Release, url: str) -> None:
    run = services.launch_run(settings_of(release, url))
    work.work_on_run(run.pk)
    first = Response.objects.filter(run=run, variant="revision").order_by("pk")[0]
    chain = Response.objects.filter(pk__in=[first.pk, *first.followers.values_list("pk", flat=True)])
    Judgment.objects.filter(response__in=chain).delete()
    chain.update(status=Status.FAILED, outcome="failed", error="Overloaded", text="")
    chain.filter(variant="summary").update(outcome="unasked")
    for row in chain:
        for rubric in row.sample.rubrics.all()[: 2 if row.variant == "summary" else 1]:
            failed = {"status": Status.FAILED, "error": NO_RESPONSE}
            Judgment.objects.create(run=run, response=row, rubric=rubric, **failed)
    before = ledger_lines(run)
    jobs_services.retry_failed(run.pk)
    work.work_on_run(run.pk)
    assert outcome_counts(run) == {(variant, "done", "answered"): 2 for variant in VARIANTS}
    retried = ledger_lines(run) - before
    assert {name: n for name, n in retried.items() if "judge" not in name} == {
        "relay/revision@1": 1,
        "relay/summary@1": 1,
    }


def test_code_can_decide_before_the_judge_is_asked(release: Release) -> None:
    with relay_models("void") as url:
        run = services.launch_run(settings_of(release, url))
        work.work_on_run(run.pk)
    assert set(Judgment.objects.filter(run=run).values_list("verdict", flat=True)) == {"missing"}
    assert not any("judge" in name for name in paid_calls(run))


def test_an_added_model_answers_the_whole_chain(release: Release, url: str) -> None:
    run = services.launch_run(settings_of(release, url))
    work.work_on_run(run.pk)
    first = paid_calls(run)
    adding.add_model(run.pk, endpoint(url, "sim-careful"))
    work.work_on_run(run.pk)
    assert outcome_counts(run) == {(variant, "done", "answered"): 4 for variant in VARIANTS}
    questions = {f"relay/{variant}@1" for variant in VARIANTS}
    assert {name: paid_calls(run)[name] for name in questions} == {name: 2 * first[name] for name in questions}
    assert not Call.objects.filter(job=run, prompt__in=questions).exclude(hit_of=None).exists()
    assert Call.objects.filter(job=run, prompt__in=questions, endpoint__name="sim-average").count() == 6
    links = Response.objects.filter(run=run, after__isnull=False)
    assert all(link.after and link.after.endpoint_id == link.endpoint_id for link in links.select_related("after"))
    assert Judgment.objects.filter(run=run).values("response", "rubric").distinct().count() == 2 * 8


def test_a_bundle_of_a_chain_is_repeated_link_by_link(release: Release, url: str, tmp_path: Path) -> None:
    run = services.launch_run(settings_of(release, url, answers=2))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
    repeated = services.launch_run(rerunning.repeat_of(tmp_path / "out").settings)
    work.work_on_run(repeated.pk)
    assert (repeated.plan, outcome_counts(repeated)) == (run.plan, outcome_counts(run))
    assert paid_calls(repeated) == paid_calls(run), "every question is asked again"
    assert ledger_lines(repeated) == paid_calls(repeated), "and none twice"
    texts = [
        list(Response.objects.filter(run=one).order_by("pk").values_list("variant", "text")) for one in (run, repeated)
    ]
    assert sorted(texts[0]) == sorted(texts[1])
    # In the repetition, too, a failed link is retried together with the links that follow it.
    summary = Response.objects.filter(run=repeated, variant="summary").order_by("pk")[0]
    chain = Response.objects.filter(pk__in=[summary.pk, summary.after_id])
    Judgment.objects.filter(response__in=chain).delete()
    chain.update(status=Status.FAILED, outcome="failed", error="Overloaded", text="")
    chain.filter(variant="summary").update(outcome="unasked")
    before = ledger_lines(repeated)
    jobs_services.retry_failed(repeated.pk)
    work.work_on_run(repeated.pk)
    assert outcome_counts(repeated) == outcome_counts(run)
    retried = ledger_lines(repeated) - before
    assert (retried["relay/draft@1"], retried["relay/revision@1"], retried["relay/summary@1"]) == (0, 1, 1)


def test_a_chain_goes_through_provider_batches_link_by_link(release: Release, url: str, settings: Any) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 0.0
    for model in ("sim-average", "sim-judge"):
        endpoint(url, model, batches=True)
    run = services.launch_run(settings_of(release, url, transport=Run.Transport.BATCH))
    for _ in range(30):
        work.work_on_run(run.pk)
        run.refresh_from_db()
        if run.status == Run.Status.FINISHED:
            break
    assert outcome_counts(run) == {(variant, "done", "answered"): 2 for variant in VARIANTS}
    assert paid_calls(run)["relay/revision@1"] == 2
    assert Call.objects.filter(job=run, prompt="relay/summary@1", hit_of=None).count() == 2


def test_a_chain_without_its_start_is_refused(release: Release, url: str) -> None:
    with pytest.raises(errors.ChainWithoutStart, match="draft"):
        services.launch_run(settings_of(release, url, datasets=["revision"]))
