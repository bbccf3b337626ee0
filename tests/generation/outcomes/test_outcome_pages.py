"""Pages, commands and API of plans, checks, attempts and comparisons."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from generation import errors
from generation.batches import launch as batches_launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.comparisons import queries as comparisons
from generation.comparisons.queries import sign_test
from generation.models import Batch, Comparison, Draft, Finding, Release, Sample, SampleVersion, Source
from generation.outcomes import attempts
from generation.outcomes import services as outcomes_services
from generation.recipes import registry
from generation.releases import services as releases_services
from mhb_site.benchmarks.mhb.plan import PAPER
from review.models import User
from tests.api.conftest import Api, api
from tests.engine import (
    Manage,
    calls,
    conversation,
    conversations_file,
    endpoint,
    generate,
    import_file,
    makers,
    manage,
    simulator_with,
)
from tests.generation.drafts.test_review_gate import batch_over, stopped, twins
from tests.generation.outcomes.test_attempts_and_comparisons import decide, reject
from tests.populations import population
from tests.review.approve import approve_everything
from tests.review.pages import text_of

__all__ = ["api", "manage", "stopped"]

pytestmark = pytest.mark.django_db
Page = Any
HOSTILE = "<script>alert('model')</script>"


@pytest.fixture
def source(tmp_path: Path, db: None) -> Source:
    return import_file(conversations_file(tmp_path / "own.jsonl", 4))


@population
def compared(folder: Path, models: str) -> Comparison:
    """A finished comparison of the default prompts with set v1, over four records."""
    source = import_file(conversations_file(folder / "own.jsonl", 4))
    comparison = batches_launch.launch_comparison(
        BatchSettings(benchmark="mhb", source=source, roles=makers(models), prompts="", compare="v1", plan=PAPER)
    )
    for batch in comparison.batches.all():
        while batches_services.work_on_batch(batch.pk):
            pass  # on a busy machine a lane ends as the other batch waits for one
    return comparison


# ------------------------------------------------------------------------------------------- launch


def test_a_trap_plan_is_rows_of_selects(admin: Client, source: Source, models: str, sent_tasks: list[Any]) -> None:
    endpoint(models)
    data = {"benchmark": "mhb", "source": source.name, "role-generator": "sim-generator", "skip": ["alike"]}
    data |= {"role-examiner": "sim-generator", "one_model": "on"}
    url = reverse("generation:batch-new")
    rows = ("targets.task", "targets.trap", "targets.samples")
    for row, message in (
        (("", "Z1", "1"), "row 1, Trap"),
        (("", "A1", "-1"), "row 1, Samples"),
        (("", "C", ""), "row 1, Samples"),
    ):
        refused: Page = admin.post(url, {**data, **dict(zip(rows, row, strict=True))})
        assert refused.status_code == 422
        [error] = refused.context["form"].errors["targets"]
        assert message in error
    twice: Page = admin.post(url, {**data, rows[0]: ["", ""], rows[1]: ["A1", "A1"], rows[2]: ["1", "2"]})
    assert twice.context["form"].errors["targets"] == ["Row 2 repeats an earlier one."]
    estimate: Page = admin.post(url, {**data, rows[0]: ["dialogue", ""], rows[1]: ["C2", ""], rows[2]: ["1", ""]})
    assert estimate.status_code == 200
    assert not Batch.objects.exists()
    form: dict[str, list[str]] = {}
    for name, value in estimate.context["carried"]:
        form.setdefault(name, []).append(value)
    assert admin.post(url, {**form, "budget_calls": "9", "confirmed": "1"}).status_code == 302
    batch = Batch.objects.get()
    assert batch.plan["targets"] == {"dialogue": {"C2": 4}}
    assert batch.checks == [name for name in registry.check_names("mhb") if name != "alike"]


def test_the_page_of_a_planned_batch_shows_planned_and_reached_counts(
    admin: Client, source: Source, models: str
) -> None:
    batch = batch_over(source, models, plan=PAPER)
    page = text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    assert "Planned and reached" in page
    counts = Counter(trap for traps in SampleVersion.objects.values_list("traps", flat=True) for trap in set(traps))
    trap, reached = counts.most_common(1)[0]
    planned = batch.plan["targets"]["dialogue"].get(trap, 0)
    pattern = rf">{trap} [^<]*</span>.*?>reached</span>.*?<span>(\d+)</span>.*?>planned</span>.*?<span>(\d+)</span>"
    assert re.findall(pattern, page, re.DOTALL)[0] == (str(reached), str(planned))
    assert "Identical to another sample" in page


def test_a_batch_without_a_plan_shows_no_plan(admin: Client, source: Source, models: str) -> None:
    batch = batch_over(source, models, checks=())
    page = text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    assert "Planned and reached" not in page
    assert "Checks before review" not in page


def test_a_composition_names_the_traps_that_no_sample_has(admin: Client, source: Source, models: str) -> None:
    batch = batch_over(source, models, checks=())
    page = text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    drawn, _head, missing = page.partition("Without samples")
    planted = {trap for traps in SampleVersion.objects.values_list("traps", flat=True) for trap in traps}
    chart, sentence = drawn[drawn.index('id="reached"') :], missing.partition("</p>")[0]
    subtypes = [term for term in registry.built_in_terms("mhb") if term.parent]
    assert len(planted) < len(subtypes)
    for term in subtypes:
        label = f"{term.code} {term.label}"
        assert (label in chart, label in sentence) == (term.code in planted, term.code not in planted)


def test_a_sample_leads_to_its_case_and_back(admin: Client, source: Source, models: str) -> None:
    batch = batch_over(source, models, checks=())
    for version in SampleVersion.objects.filter(draft__batch=batch):
        sample, case = (
            reverse("generation:sample", args=[version.sample_id]),
            reverse("review:history", args=[version.case_id]),
        )
        for page in (reverse("generation:batch", args=[batch.pk]), reverse("generation:samples")):
            assert f'href="{case}"' in text_of(admin.get(page))
        assert f'href="{sample}"' in text_of(admin.get(case))


# ------------------------------------------------------------------------------------------- checks


def test_findings_are_counted_listed_and_filtered(admin: Client, stopped: Draft) -> None:
    page = text_of(admin.get(reverse("generation:batch", args=[stopped.batch_id])))
    url = reverse("generation:findings", args=[stopped.batch_id])
    assert f'href="{url}?check=identical&amp;state=stopped">1</a>' in page
    key = Sample.objects.get().key
    draft_url = reverse("generation:draft", args=[stopped.pk])
    for query, listed in (("", True), ("?check=identical&state=stopped", True), ("?check=leak", False)):
        page = text_of(admin.get(url + query))
        assert (draft_url in page) == listed
        assert (key in page) == listed


def test_a_stopped_draft_can_be_read_and_sent_to_review(admin: Client, adela: User, stopped: Draft) -> None:
    url = reverse("generation:draft", args=[stopped.pk])
    Finding.objects.create(
        draft=stopped, check_name="leak", stops=True, detail=HOSTILE, created_at=stopped.batch.created_at
    )
    page = text_of(admin.get(url))
    assert "This is case 1." in page
    assert "The response must" in page
    assert "Send to review" in page
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    send_url = reverse("generation:draft-send-to-review", args=[stopped.pk])
    assert admin.post(send_url, {"reason": " "}).status_code == 422
    assert Sample.objects.count() == 1
    assert admin.post(send_url, {"reason": "Another patient."}).status_code == 302
    page = text_of(admin.get(url))
    assert "Another patient." in page
    assert str(adela) in page
    assert "Send to review" not in page
    assert admin.post(send_url, {"reason": "Again."}).status_code == 409
    sample = text_of(admin.get(reverse("generation:sample", args=[SampleVersion.objects.get(draft=stopped).sample_id])))
    assert "sent to review" in sample
    assert url in sample


def test_a_sample_links_to_its_stopped_next_version(admin: Client, source: Source, models: str) -> None:
    batch = batch_over(source, models)
    sample = Sample.objects.order_by("pk")[0]
    stopped = Draft.objects.create(
        batch=batch, record=sample.record, sample=sample, version=2, status="dropped", gate="stopped", detail="leak: x"
    )
    page = text_of(admin.get(reverse("generation:sample", args=[sample.pk])))
    assert reverse("generation:draft", args=[stopped.pk]) in page


def test_stopped_drafts_are_decided_from_the_shell(manage: Manage, stopped: Draft) -> None:
    [row] = manage.json("stopped_drafts")["stopped"]
    assert (row["draft"], row["batch"]) == (stopped.pk, stopped.batch_id)
    assert "Give a reason" in manage.refusal("stopped_drafts", "--send-to-review", stopped.pk)
    output = manage.json("stopped_drafts", "--send-to-review", stopped.pk, "--reason", "Fine.")
    assert output["gate"] == "let-through"
    assert output["sample"] == Sample.objects.order_by("-pk")[0].key
    assert manage.json("stopped_drafts")["stopped"] == []
    assert "not stopped by a check" in manage.refusal("stopped_drafts", "--discard", stopped.pk, "--reason", "No.")


def test_stopped_drafts_are_decided_over_the_api(api: Api, adela: User, stopped: Draft) -> None:
    client = api(adela)
    [row] = client.get(f"/api/v1/batches/{stopped.batch_id}/findings/?state=stopped").json()["results"]
    assert (row["check_name"], row["other"], row["likeness"]) == ("identical", Sample.objects.get().key, 1.0)
    assert client.get(f"/api/v1/batches/{stopped.batch_id}/findings/?state=discarded").json()["results"] == []
    assert client.post(f"/api/v1/drafts/{stopped.pk}/discard/", {}).status_code == 400
    answer = client.post(f"/api/v1/drafts/{stopped.pk}/discard/", {"reason": "A copy."})
    assert (answer.status_code, answer.json()["gate"]) == (200, "discarded")
    assert client.post(f"/api/v1/drafts/{stopped.pk}/send-to-review/", {"reason": "No."}).status_code == 409
    listed = client.get(f"/api/v1/batches/{stopped.batch_id}/drafts/?gate=discarded").json()["results"]
    assert [draft["id"] for draft in listed] == [stopped.pk]


# ----------------------------------------------------------------------------------------- attempts


def test_attempts_count_versions_by_prompt_trap_and_generator(
    tmp_path: Path, models: str, ana: User, bo: User, admin: Client, manage: Manage, api: Api, adela: User
) -> None:
    batch = batch_over(twins(tmp_path, "one")[0], models, checks=())
    decide(Sample.objects.get(), ana, bo, reject)
    batches_services.work_on_batch(batch.pk)
    rejected = calls(batch)[-1].sent["messages"][1]["content"].partition("<<<REJECTED\n")[2]
    assert "Nobody would ask for a dose in this way." in rejected.partition("\nREJECTED>>>")[0]
    other_batch = batches_launch.launch_batch(
        BatchSettings(
            benchmark="mhb",
            source=import_file(conversations_file(tmp_path / "more.jsonl", *map(conversation, (2, 3, 4))), "more"),
            roles=makers(models),
        )
    )
    batches_services.work_on_batch(other_batch.pk)
    SampleVersion.objects.filter(sample__batch=other_batch).update(prompt="mhb/other@3")
    approve_everything([ana, bo])
    outcomes_services.apply_outcomes()
    rows = {row.key: row for row in attempts.attempts("mhb", ["prompt"])}
    row, other = rows["mhb/inject_dialogue@5",], rows["mhb/other@3",]
    assert (row.decided, row.approved, row.first, row.first_approved, row.tries) == (2, 1, 1, 0, 2)
    assert row.mean == 2.0
    assert (other.decided, other.approved, other.first_approved, other.mean) == (3, 3, 3, 1.0)
    by_trap = attempts.attempts("mhb", ["trap", "generator"])
    traps_count = sum(len(set(traps)) for traps in SampleVersion.objects.values_list("traps", flat=True))
    assert sum(row.decided for row in by_trap) == traps_count
    assert {row.key[1] for row in by_trap} == {"sim-generator"}

    page = text_of(admin.get(reverse("generation:attempts"), {"by": "prompt"}))
    assert re.findall(r"<span>(\d+\.\d%)</span>.*?>(\d/\d)<", page, re.DOTALL) == [("0.0%", "0/1"), ("100.0%", "3/3")]
    assert [row["prompt"] for row in manage.json("approval_attempts", "--benchmark", "mhb", "--by", "prompt")["attempts"]] == [
        "mhb/inject_dialogue@5", "mhb/other@3",
    ]  # fmt: skip
    answer = api(adela).get("/api/v1/attempts/?benchmark=mhb&by=prompt").json()
    assert [(row["prompt"], row["trap"], row["mean"]) for row in answer] == [
        ("mhb/inject_dialogue@5", None, 2.0), ("mhb/other@3", None, 1.0),
    ]  # fmt: skip
    assert api(adela).get("/api/v1/attempts/?benchmark=nope").status_code == 400


# -------------------------------------------------------------------------------------- comparisons


def test_both_batches_have_the_same_records_and_preferred_traps(compared: Comparison) -> None:
    a, b = compared.batches.order_by("arm")
    assert (a.prompts, b.prompts) == ("", "v1")
    preferred = [list(batch.drafts.order_by("record").values_list("record", "preferred")) for batch in (a, b)]
    assert preferred[0] == preferred[1]
    examiner = {"mhb/examine_blind@1", "mhb/examine@3", "mhb/answer_plainly@1", "mhb/judge_all@3"}
    assert {call.prompt for call in calls(a)} == {"mhb/inject_dialogue@5"} | examiner
    assert {call.prompt for call in calls(b)} == {"mhb/v1/inject_dialogue@1"} | examiner
    assert "<<<PREFERRED" in calls(a)[0].sent["messages"][1]["content"]
    assert "<<<PREFERRED" not in calls(b)[0].sent["messages"][1]["content"]


def test_similar_drafts_of_one_comparison_do_not_stop_each_other(tmp_path: Path, db: None) -> None:
    from tests.generation.drafts.test_review_gate import fixed_script

    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    with simulator_with(fixed_script(None)) as url:
        comparison = batches_launch.launch_comparison(
            BatchSettings(benchmark="mhb", source=source, roles=makers(url), prompts="", compare="v1")
        )
        for batch in comparison.batches.all():
            batches_services.work_on_batch(batch.pk)
    assert not Draft.objects.exclude(gate="").exists()
    assert Sample.objects.count() == 4
    assert not any(pair.differs for pair in comparisons.pairs(comparison, list(comparisons.paired_drafts(comparison))))


def test_equal_and_unknown_prompt_sets_are_not_compared(source: Source, models: str) -> None:
    options: dict[str, Any] = {"benchmark": "mhb", "source": source, "roles": makers(models)}
    with pytest.raises(errors.SamePrompts):
        batches_launch.launch_comparison(BatchSettings(prompts="v1", compare="v1", **options))
    with pytest.raises(errors.UnknownPrompts, match="v1"):
        batches_launch.launch_comparison(BatchSettings(prompts="", compare="v9", **options))
    assert not Batch.objects.exists()
    assert not Comparison.objects.exists()


def test_paired_counts_and_the_sign_test(
    compared: Comparison, admin: Client, physicians: list[User], manage: Manage, api: Api, adela: User
) -> None:
    samples = {
        (sample.batch.arm, position): sample
        for arm in "AB"
        for position, sample in enumerate(Sample.objects.filter(batch__arm=arm).order_by("record"))
    }
    assert len(samples) == 8, list(Draft.objects.values_list("gate", "detail"))
    statuses = {"A0": "approved", "A1": "approved", "A2": "approved", "A3": "discarded"}
    statuses |= {"B0": "approved", "B1": "discarded", "B2": "in-review", "B3": "approved"}
    for (arm, position), sample in samples.items():
        Sample.objects.filter(pk=sample.pk).update(status=statuses[f"{arm}{position}"])
    result = comparisons.compare_arms(compared)
    assert dict(result.table) == {"approved": (1, 1, 1), "not-approved": (1, 0, 0), "open": (0, 0, 0)}
    assert (result.only_a, result.only_b, result.chance) == (1, 1, 1.0)
    page = text_of(admin.get(reverse("generation:comparison", args=[compared.pk])))
    assert "Approved with A only: 1. Approved with B only: 1." in page
    output = manage.json("comparison", compared.pk)
    assert (output["records"], output["only_a"], output["only_b"]) == (4, 1, 1)
    answer = api(adela).get(f"/api/v1/comparisons/{compared.pk}/").json()
    assert [arm["prompts"] for arm in answer["arms"]] == ["", "v1"]
    listed = api(adela).get(f"/api/v1/comparisons/{compared.pk}/pairs/").json()["results"]
    assert [(pair["a"]["status"], pair["b"]["status"]) for pair in listed] == [
        ("approved", "approved"), ("approved", "discarded"), ("approved", "in-review"), ("discarded", "approved"),
    ]  # fmt: skip
    assert "There is no comparison" in manage.refusal("comparison", 999)


@pytest.mark.parametrize(
    ("one", "other", "chance"), [(0, 0, None), (3, 3, 1.0), (0, 5, 0.0625), (9, 1, 22 / 1024), (2_000, 2_000, 1.0)]
)
def test_the_exact_sign_test(one: int, other: int, chance: float | None) -> None:
    assert sign_test(one, other) == sign_test(other, one) == (pytest.approx(chance) if chance is not None else None)


def test_a_record_shows_both_texts_with_their_differences(compared: Comparison, admin: Client) -> None:
    records = [draft.record for draft in comparisons.paired_drafts(compared).order_by("pk")]
    pages = [
        text_of(admin.get(reverse("generation:comparison-record", args=[compared.pk, record.pk]))) for record in records
    ]
    for version in SampleVersion.objects.filter(sample__record=records[0]):
        assert version.prompt in pages[0]
    assert any("<del>" in page and "<ins>" in page for page in pages), "both sets may lead to the same trap"
    other = Client().get(reverse("generation:comparison-record", args=[compared.pk, 10**6]))
    assert other.status_code == 302
    assert admin.get(reverse("generation:comparison-record", args=[compared.pk, 10**6])).status_code == 404


def test_a_comparison_page_needs_no_more_queries_for_more_records(compared: Comparison, admin: Client) -> None:
    def query_count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert admin.get(reverse("generation:comparison", args=[compared.pk])).status_code == 200
        return len(queries)

    many = query_count()
    a, _b = compared.batches.order_by("arm")
    removed = a.drafts.order_by("record").values_list("record", flat=True)[1:]
    Draft.objects.filter(batch=a, record__in=list(removed)).update(version=9)  # one record is left
    assert len(comparisons.pairs(compared, list(comparisons.paired_drafts(compared)))) == 1
    assert query_count() == many


def test_a_comparison_is_launched_from_page_shell_and_api(
    admin: Client, tmp_path: Path, models: str, sent_tasks: list[Any], manage: Manage, api: Api, adela: User,
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    endpoint(models)
    for name in ("one", "two", "three"):
        import_file(conversations_file(tmp_path / f"{name}.jsonl", 2), name)
    data = {"benchmark": "mhb", "source": "one", "role-generator": "sim-generator", "compare": "=v1", "confirmed": "1"}
    data |= {"role-examiner": "sim-generator", "one_model": "on"}
    with django_capture_on_commit_callbacks(execute=True):
        answer: Page = admin.post(reverse("generation:batch-new"), data)
    comparison = Comparison.objects.get()
    assert answer["Location"] == reverse("generation:comparison", args=[comparison.pk])
    assert comparison.batches.count() == 2
    assert [name for name, *_pk in sent_tasks].count("run_lane") == 2, (
        "a lane for each arm; it takes the job whose turn it is"
    )
    same: Page = admin.post(reverse("generation:batch-new"), {**data, "source": "two", "compare": "="})
    assert "two different sets" in same.context["form"].non_field_errors()[0]

    output = manage.json(
        "generate", "--benchmark", "mhb", "--source", "two", "--generator", "sim-generator", "--role", "examiner=sim-generator",
        "--one-model", "--compare", "v1",
        "--plan", "none", "--skip", "alike", "--yes", "--wait",
    )  # fmt: skip
    assert [batch["done"] + batch["stopped"] for batch in output["batches"]] == [2, 2]
    assert Batch.objects.get(pk=output["batches"][0]["batch"]).plan == {}

    body = {
        "benchmark": "mhb",
        "source": "three",
        "roles": {"generator": "sim-generator", "examiner": "sim-generator"},
        "one_model": True,
        "compare": "v1",
        "budget_calls": 9,
    }
    answer = api(adela).post("/api/v1/comparisons/", body)
    assert answer.status_code == 202, answer.content
    assert [arm["prompts"] for arm in answer.json()["arms"]] == ["", "v1"]
    assert Batch.objects.filter(comparison=answer.json()["id"], arm="A").get().plan["name"] == "paper"
    assert text_of(admin.get(reverse("generation:comparisons"))).count("Comparison ") >= 3


def test_plans_from_the_shell_and_the_api(
    manage: Manage, tmp_path: Path, models: str, api: Api, adela: User, sent_tasks: list[Any]
) -> None:
    endpoint(models)
    import_file(conversations_file(tmp_path / "own.jsonl", 6))
    command = generate("sim-generator", "--yes", "--limit", 2)
    plan = tmp_path / "plan.json"
    for text, message in (
        ("{", "cannot be used"),
        ('{"Z1": 1}', "not a trap"),
        ('{"report": {"A1": 1}}', "cannot be used"),
    ):
        plan.write_text(text)
        assert message in manage.refusal(*command, "--plan", plan)
    assert "known: paper, figure-2, none" in manage.refusal(*command, "--plan", "other")
    assert "known: identical" in manage.refusal(*command, "--skip", "spelling")
    plan.write_text('{"A1": 1}')
    assert manage.json(*command, "--plan", plan)["plan"] == "own"
    assert manage.json(*command)["plan"] == "paper"
    body = {"benchmark": "mhb", "source": "own", "roles": {"generator": "sim-generator"}, "confirmed": True}
    body |= {"checks": ["leak"]}
    assert api(adela).post("/api/v1/batches/", {**body, "plan": {"Z1": 1}}).status_code == 422
    answer = api(adela).post("/api/v1/batches/", {**body, "plan": {"E1": 1}, "checks": ["leak"]})
    assert answer.status_code == 202
    assert answer.json()["plan"]["targets"] == {"dialogue": {"E1": 2}}
    assert answer.json()["checks"] == ["leak"]


def test_only_the_first_sample_of_a_pair_is_released(compared: Comparison, physicians: list[User]) -> None:
    approve_everything(physicians)
    outcomes_services.apply_outcomes()
    approved = Sample.objects.filter(status=Sample.Status.APPROVED)
    assert approved.count() == 8
    dropped = approved.get(batch__arm="A", record=approved.order_by("record").values("record")[:1])
    SampleVersion.objects.filter(sample=dropped).update(status=SampleVersion.Status.WITHDRAWN)
    release = releases_services.freeze_release("own", benchmark="mhb")
    assert Release.objects.count() == 1
    arms = Counter(release.samples.values_list("version__sample__batch__arm", flat=True))
    assert arms == {"A": 3, "B": 1}
    assert release.samples.values("version__sample__record").distinct().count() == 4
