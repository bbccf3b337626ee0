"""A draft that a check stops goes back to the generator with the finding, as often as its batch
says; what was discarded can be drawn again; funnel and card count both."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.batches import launch, queries, services
from generation.batches.launch import BatchSettings
from generation.models import Batch, Draft, GateEvent, Sample, SampleVersion, Source
from generation.models.work import Work
from generation.samples import funnel
from mhb_site.benchmarks.mhb import simulate
from review.models import User
from tests.engine import calls, import_file, makers, reports_file, simulator_with

pytestmark = pytest.mark.django_db
Gate = Draft.Gate


class Findings:
    """Models whose checker finds an answer to the next `left` questions that it is asked."""

    left = 0
    breaks = False  # whether the generator cannot mend what was found
    url = ""

    def reply(self, model: str, messages: Any, seed: int) -> str | None:
        if self.breaks and any("<<<REJECTED\n{" in message.text for message in messages):
            return "I cannot."
        if "# MHB checker" in messages[0].content and self.left:
            self.left -= 1
            return json.dumps({"answerable": True, "answer": "It was 5.", "where": "Blood cultures grew nothing."})
        return simulate.SCRIPT.reply(model, messages, seed)


@pytest.fixture
def findings() -> Iterator[Findings]:
    script = Findings()
    with simulator_with(script) as script.url:
        yield script


def run(source: Source, findings: Findings, times: int, **settings: Any) -> Batch:
    """A batch over the reports of a source, of whose questions `times` are found to be answered."""
    findings.left = times
    settings = {"roles": makers(findings.url), **settings}
    batch = launch.launch_batch(BatchSettings(benchmark="mhb", source=source, **settings))
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED
    return batch


def reports(folder: Path, n: int = 1) -> Source:
    return import_file(reports_file(folder / "own.json", n), "reports", "pmc-patients")


def gates(batch: Batch) -> list[str]:
    return list(batch.drafts.order_by("pk").values_list("gate", flat=True))


def test_a_stopped_draft_is_written_again_from_what_was_found(findings: Findings, tmp_path: Path) -> None:
    batch = run(reports(tmp_path), findings, 1)
    assert gates(batch) == [Gate.RETURNED, ""]
    first, second = batch.drafts.order_by("pk")
    assert (first.status, second.status, second.parent) == (Work.Status.DROPPED, Work.Status.DONE, first)
    version = SampleVersion.objects.get()
    assert (version.draft, version.number) == (second, 1), "no physician saw the first"
    assert version.content["question"] != first.data["content"]["question"]
    value = queries.draft_value(second)
    assert value.previous is not None
    assert value.previous["question"] == first.data["content"]["question"]
    assert value.previous["rubrics"][0]["key"] == "R1"
    assert value.reasons == ("The report answers the question: It was 5. [Blood cultures grew nothing.]",)
    event = GateEvent.objects.get(draft=first, kind=Gate.RETURNED)
    assert (event.actor, event.reason) == (None, value.reasons[0])


def test_the_generator_is_shown_the_version_and_the_finding(findings: Findings, tmp_path: Path) -> None:
    batch = run(reports(tmp_path), findings, 2)
    first, second, third = (
        call.sent["messages"][-1]["content"] for call in calls(batch) if "question_report" in call.prompt
    )
    assert "<<<REJECTED\nnull\nREJECTED>>>" in first
    assert "It was 5." in second
    assert "earlier_versions_rejected_too" in third


@pytest.mark.parametrize("returns", [0, 1, 2])
def test_a_draft_goes_back_as_often_as_the_batch_says(findings: Findings, tmp_path: Path, returns: int) -> None:
    batch = run(reports(tmp_path), findings, 99, changes={"returns": returns})
    assert gates(batch) == [*returns * ["returned"], "stopped"]
    assert not Sample.objects.exists()


def test_what_the_generator_cannot_mend_waits_for_an_admin_at_once(findings: Findings, tmp_path: Path) -> None:
    run(reports(tmp_path), findings, 0)
    twin = import_file(reports_file(tmp_path / "twin.json", 1), "twin", "pmc-patients")
    assert gates(run(twin, findings, 0)) == [Gate.STOPPED], "the text of another sample"
    third = import_file(reports_file(tmp_path / "third.json", 1), "third", "pmc-patients")
    assert gates(run(third, findings, 1)) == [Gate.STOPPED], "one finding that it can mend, and one that it cannot"


def test_the_funnel_counts_what_was_sent_back(findings: Findings, tmp_path: Path, client: Client, adela: User) -> None:
    batch = run(reports(tmp_path, 3), findings, 2)
    report = funnel.funnel("mhb", [batch.pk])
    assert report.adds_up
    assert (report.returned, dict(report.returned_by)) == (2, {"The report answers the question": 2})
    assert report.whole.stages[0].count == report.whole.stages[1].count == 3
    assert funnel.from_json(funnel.to_json(report)) == report
    assert funnel.from_json({"whole": funnel.to_json(report)["whole"], "by_task": [], "by_trap": []}).returned == 0
    client.force_login(adela)
    page = client.get(reverse("generation:batch", args=[batch.pk])).content.decode()
    assert "Checks sent 2 drafts back to the generator" in page
    assert "state=returned" in page


def test_a_record_whose_next_draft_failed_is_offered_like_others_that_failed(
    findings: Findings, tmp_path: Path
) -> None:
    source = reports(tmp_path)
    findings.breaks = True
    first = run(source, findings, 1)
    assert [draft.status for draft in first.drafts.order_by("pk")] == [Work.Status.DROPPED, Work.Status.FAILED]
    second = run(source, findings, 0, again=True)
    assert gates(second) == [""]
    report = funnel.funnel("mhb", [first.pk, second.pk])
    assert (report.adds_up, report.drawn_again) == (True, 0), "nothing of it had been discarded"


def test_a_discarded_record_is_drawn_again_only_on_request(findings: Findings, tmp_path: Path, adela: User) -> None:
    source = reports(tmp_path)
    batch = run(source, findings, 9, changes={"returns": 1})
    with pytest.raises(errors.NothingToDo):
        run(source, findings, 0, again=True)  # an admin has not decided yet
    services.discard_stopped(batch.drafts.get(gate=Gate.STOPPED).pk, actor=adela, reason="No.")
    with pytest.raises(errors.NothingToDo):
        run(source, findings, 0)
    second = run(source, findings, 0, again=True)
    assert (gates(second), second.draw["again"]) == ([""], True)
    assert launch.repeat_settings(second, {})["again"] is True
    report = funnel.funnel("mhb", [batch.pk, second.pk])
    assert report.adds_up
    assert (report.drawn_again, report.whole.stages[1].gained) == (1, {"batches": 1})
    with pytest.raises(errors.NothingToDo):
        run(source, findings, 0, again=True)  # its sample is in review
    SampleVersion.objects.update(status=SampleVersion.Status.REJECTED)
    Sample.objects.update(status=Sample.Status.DISCARDED)
    assert gates(run(source, findings, 0, again=True)) == [""]
