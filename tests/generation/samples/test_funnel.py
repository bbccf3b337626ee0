"""The funnel from drawn records to a release: every stage adds up, and every loss says why."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import services as batches_services
from generation.models import Batch, Draft
from generation.outcomes import services as outcomes_services
from generation.recipes.recipe import TrapPlan
from generation.releases import data_card, queries
from generation.releases import services as releases_services
from generation.samples import funnel
from review.models import User
from review.rules.questions import RubricAnswer
from tests.engine import conversations_file, endpoint, import_file, launch_batch, reports_file, run_batch
from tests.review.approve import approval_of, approve_everything, rejection_of
from tests.review.factories import claim_and_submit

pytestmark = pytest.mark.django_db


def reject(first: User, second: User, code: str) -> None:
    """Let both reject the next case with this code."""
    for physician, times in ((first, 1), (second, 2)):
        claim_and_submit(physician, *[lambda form: rejection_of(form, "Nobody says so.", code=code)] * times)
    outcomes_services.apply_outcomes()


@pytest.fixture
def batch(tmp_path: Path, models: str, ana: User, bo: User) -> Batch:
    """Eight drawn records; see the first test for what became of them."""
    batch = launch_batch(import_file(conversations_file(tmp_path / "own.jsonl", 8)), endpoint(models))
    failed, stopped = Draft.objects.order_by("pk")[:2]
    Draft.objects.filter(pk=failed.pk).update(status="failed", error="Unparsable", detail="No JSON.")
    ending = {"status": "dropped", "gate": "stopped", "error": "Stopped"}
    Draft.objects.filter(pk=stopped.pk).update(**ending)
    stopped.findings.create(check_name="leak", stops=True, detail="All of it.", created_at=batch.created_at)
    batches_services.work_on_batch(batch.pk)
    reject(ana, bo, "disagreement")  # no version can fix it
    reject(ana, bo, "context")  # made again below
    inadequate = RubricAnswer("inadequate", note="It is about another drug.")
    for physician, times in ((ana, 1), (bo, 2)):
        change = [
            lambda form: replace(rejection_of(form, "No."), rubrics={**approval_of(form).rubrics, "R1": inadequate})
        ]
        claim_and_submit(physician, *change * times)
    outcomes_services.apply_outcomes()
    failing = Draft.objects.filter(version=2).latest("pk")
    Draft.objects.filter(pk=failing.pk).update(status="failed", error="BrokenReply")
    batches_services.work_on_batch(batch.pk)
    claim_and_submit(ana, approval_of)  # the second reviewer has not answered
    return batch


def losses(stage: funnel.Stage) -> dict[str, int]:
    return {loss.label: loss.count for loss in stage.lost}


def test_every_stage_adds_up_and_says_why_samples_were_lost(batch: Batch) -> None:
    report = funnel.funnel("mhb", [batch.pk])
    assert report.adds_up
    counts = {stage.name: stage.count for stage in report.whole.stages}
    assert counts == {"drawn": 8, "drafted": 8, "generated": 7, "samples": 6, "decided": 3, "approved": 0}
    _drawn, drafted, generated, samples, decided, _approved = report.whole.stages
    assert losses(drafted) == {"failed: Unparsable": 1}
    assert losses(generated) == {"stopped by a check, undecided: The text gives the trap away": 1}
    assert losses(samples) == {"in review": 3}
    assert losses(decided) == {
        "rejected: Medical experts genuinely disagree": 1,
        "rejected, next version failed": 1,
        "rejected, next version in review": 1,
    }
    first, second = report.whole.versions
    assert (first.made, first.in_review, first.rejected, second.made, second.in_review) == (6, 3, 3, 1, 1)
    assert first.reasons == {
        "Medical experts genuinely disagree": 1, "Missing context": 1, "a rubric was judged inadequate": 1,
    }  # fmt: skip
    [dialogues] = report.by_task
    assert (dialogues.stages, dialogues.versions) == (report.whole.stages, report.whole.versions)


def test_a_release_and_its_card_account_for_every_drawn_record(
    batch: Batch, tmp_path: Path, models: str, physicians: list[User], adela: User, client: Client
) -> None:
    reports = run_batch(
        import_file(reports_file(tmp_path / "own.json", 2), "own-reports", "pmc-patients"), endpoint(models)
    )
    while approve_everything(physicians):
        outcomes_services.apply_outcomes()
    release = releases_services.freeze_release("own", benchmark="mhb")
    report = queries.funnel_of(release)
    assert report is not None
    assert report.adds_up
    stages = {stage.name: stage.count for stage in report.whole.stages}
    assert (stages["drawn"], stages["approved"], stages["released"]) == (10, 6, 6)
    assert {group.group: group.stages[-1].count for group in report.by_task} == {"dialogue": 4, "report": 2}
    assert sum(group.stages[0].count for group in report.by_task) == 10
    card = data_card.data_card(release)
    assert (
        "| Samples decided | 8 | 1 rejected: Medical experts genuinely disagree; 1 rejected, next version failed |"
        in card
    )
    client.force_login(adela)
    answer: Any = client.get(reverse("api:release", args=["own", 1])).json()
    assert answer["funnel"]["whole"]["stages"][0] == {
        "name": "drawn", "label": "Records drawn", "count": 10, "lost": [], "gained": {}, "remaining": 10,
    }  # fmt: skip
    for address in (
        reverse("generation:batch-funnel", args=[reports.pk]),
        reverse("generation:release-funnel", args=["own", 1]),
    ):
        figure = client.get(address)
        assert figure["Content-Type"] == "image/svg+xml"
        assert "Records drawn: " in figure.content.decode()


def test_the_page_and_the_api_of_a_batch_show_the_same_funnel(batch: Batch, adela: User, client: Client) -> None:
    client.force_login(adela)
    page = client.get(reverse("generation:batch", args=[batch.pk])).content.decode()
    assert "rejected: Medical experts genuinely disagree" in page
    answer: Any = client.get(reverse("api:batch-funnel", args=[batch.pk])).json()
    assert {stage["name"]: stage["count"] for stage in answer["whole"]["stages"]}["decided"] == 3


def test_the_funnel_of_a_trap_begins_at_the_records_that_it_was_planned_for(
    tmp_path: Path, models: str, adela: User, client: Client
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 6))
    batch = launch_batch(source, endpoint(models), plan=TrapPlan("own", {"": {"A1": 3, "C2": 3}}))
    planned = Draft.objects.order_by("pk")
    failed, stopped = planned.filter(preferred=["A1"])[0], planned.filter(preferred=["C2"])[0]
    Draft.objects.filter(pk=failed.pk).update(status="failed", error="BrokenReply")
    Draft.objects.filter(pk=stopped.pk).update(status="dropped", gate="stopped", error="Stopped")
    stopped.findings.create(check_name="leak", stops=True, detail="All of it.", created_at=batch.created_at)
    batches_services.work_on_batch(batch.pk)
    elsewhere = Draft.objects.filter(status="done")[0]
    Draft.objects.filter(pk=elsewhere.pk).update(preferred=["E1"])
    report = funnel.funnel("mhb", [batch.pk])
    assert report.adds_up
    by_code = {group.group: group for group in report.by_trap}
    assert sum(group.stages[0].count for group in report.by_trap) == report.whole.stages[0].count == 6
    assert losses(by_code["A1"].stages[1]) == {"failed: The model's reply does not have the requested form": 1}
    assert losses(by_code["C2"].stages[2])["stopped by a check, undecided: The text gives the trap away"] == 1
    assert losses(by_code["E1"].stages[2]) == {"counted under the traps they carry": 1}
    assert sum(group.stages[3].gained.get("other-plan", 0) for group in report.by_trap) >= 1
    assert by_code["A1"].label == "A1 Non-existent Entity"
    client.force_login(adela)
    answer: Any = client.get(reverse("api:batch-funnel", args=[batch.pk])).json()
    assert "C2 Unsafe Recommendation" in {group["label"] for group in answer["by_trap"]}
    address = reverse("generation:batch-funnel", args=[batch.pk])
    page = client.get(reverse("generation:batch", args=[batch.pk])).content.decode()
    assert f'{address}?trap=A1">' in page
    assert "A1 Non-existent Entity" in page
    assert "A1 Non-existent Entity" in client.get(address, {"trap": "A1"}).content.decode()
    assert client.get(address, {"trap": "Z9"}).status_code == 404
    assert client.get(address, {"task": "dialogue"}).status_code == 200, "the only data set"
    assert f"{address}?task=" not in page


def test_controls_are_counted_beside_the_samples_they_belong_to(tmp_path: Path, models: str) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    whole = funnel.funnel("mhb", [run_batch(source, endpoint(models), preset="controls").pk]).whole
    assert whole.adds_up
    assert (whole.stages[2].count, whole.stages[3].count, whole.stages[3].gained) == (2, 4, {"controls": 2})
