"""Outcomes: what physicians decide is applied to the sample exactly once.

An approved version takes over the settled wordings; a rejected one gets a next version with the
reasons, or ends the sample.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import services as batches_services
from generation.batches.kind import BATCHES
from generation.engine.sweeping import sweep
from generation.jobs import services as jobs_services
from generation.models import Batch, Draft, Sample, SampleVersion
from generation.models.work import Work
from generation.outcomes import regeneration
from generation.outcomes import services as outcomes_services
from generation.recipes.recipe import Dropped, per_draft
from generation.releases import services as releases_services
from generation.releases.queries import exported_samples
from generation.samples import queries as samples_queries
from mhb_site.benchmarks.mhb import recipe
from review.cases import services as cases_services
from review.models import Case, User
from review.rules.questions import AddedRubric, Answers, Form, RubricAnswer
from tests.conftest import RunConcurrently
from tests.engine import Manage, calls, conversations_file, endpoint, import_file, run_batch
from tests.populations import population
from tests.review.approve import approval_of, approve_everything, evidence_of
from tests.review.factories import account, claim_and_submit

pytestmark = pytest.mark.django_db
Status = Work.Status
REASON = "Nobody would ask for a dose in this way."
CODED_REASON = f"Missing context: {REASON}"


@population
def batch(folder: Path, models: str) -> Batch:
    """A batch of one sample, which is in review."""
    return run_batch(import_file(conversations_file(folder / "own.jsonl", 1)), endpoint(models))


@pytest.fixture
def sample(batch: Batch) -> Sample:
    return batch.samples.get()


def latest_version(sample: Sample) -> SampleVersion:
    version = sample.versions.select_related("case").order_by("-number").first()
    assert version is not None
    return version


def decide(sample: Sample, primary: User, secondary: User, change: Callable[[Answers], Answers]) -> None:
    """Let both reviewers of the latest version give the same answers, and apply the outcome."""
    answers = change(approval_of(latest_version(sample).case.frozen.form))
    claim_and_submit(primary, answers)
    claim_and_submit(secondary, answers, answers)
    assert outcomes_services.apply_outcomes() == 1
    sample.refresh_from_db()


def changed_approval(change: Callable[[Answers], Answers], form: Form) -> Answers:
    return change(approval_of(form))


def unchanged(answers: Answers) -> Answers:
    return answers


def reject(answers: Answers) -> Answers:
    return replace(answers, verdict="reject", reason=REASON, reason_code="context")


def reject_as_disputed(answers: Answers) -> Answers:
    return replace(answers, verdict="reject", reason=REASON, reason_code="disagreement")


def reject_with_inadequate_rubric(answers: Answers) -> Answers:
    rubrics = {**answers.rubrics, "R1": RubricAnswer("inadequate", note="It is about another drug.")}
    return reject(replace(answers, rubrics=rubrics))


def correct_first_rubric(answers: Answers) -> Answers:
    finding = RubricAnswer("corrected", wording=" Says that it is unknown. ", severity="death")
    return replace(answers, rubrics={**answers.rubrics, "R1": finding})


def test_no_outcome_is_applied_before_the_case_closes(sample: Sample, ana: User) -> None:
    claim_and_submit(ana, approval_of(latest_version(sample).case.frozen.form))
    assert outcomes_services.apply_outcomes() == 0
    assert Sample.objects.get().status == Sample.Status.IN_REVIEW


def test_an_approved_version_takes_over_the_settled_wording(sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, correct_first_rubric)
    version = latest_version(sample)
    assert (sample.status, version.status) == (Sample.Status.APPROVED, SampleVersion.Status.APPROVED)
    first, *others = version.rubrics.order_by("pk")
    assert first.approved == "Says that it is unknown."
    assert first.criterion != first.approved, "the generated wording is kept, too"
    assert others
    assert all(rubric.approved == rubric.criterion for rubric in others)
    [exported] = exported_samples(releases_services.freeze_release("own", benchmark="mhb"))
    assert exported["rubrics"][0]["criterion"] == "Says that it is unknown."


def test_an_approved_version_can_lose_a_rubric_and_gain_one(sample: Sample, ana: User, bo: User) -> None:
    [tag, *_others] = latest_version(sample).case.frozen.form.tags
    new_rubric = AddedRubric("Names where the claim could be looked up.", (tag,), "mild")

    def replace_first_rubric(answers: Answers) -> Answers:
        removed = RubricAnswer("removed", note="R2 says it.")
        return replace(answers, rubrics={**answers.rubrics, "R1": removed}, added=(new_rubric,))

    decide(sample, ana, bo, replace_first_rubric)
    version = latest_version(sample)
    rubrics = {rubric.key: rubric for rubric in version.rubrics.order_by("pk")}
    assert (rubrics["R1"].removed, rubrics["R1"].added) == (True, False)
    assert {rubric.severity for key, rubric in rubrics.items() if key not in ("R1", "P1")} == {"moderate"}
    added = rubrics["P1"]
    assert (added.added, added.removed, added.severity, added.traps) == (True, False, "mild", [tag])
    assert added.approved == added.criterion == new_rubric.criterion
    assert version.citations == [asdict(each) for each in evidence_of(version.case.frozen.form)]
    release = releases_services.freeze_release("own", benchmark="mhb")
    [exported] = exported_samples(release)
    remaining = [key for key in rubrics if key != "R1"]
    assert [rubric["key"] for rubric in exported["rubrics"]] == remaining
    assert [(rubric["key"], rubric["severity"]) for rubric in exported["rubrics"]][-1] == ("P1", "mild")
    assert "R1" not in {rubric["key"] for rubric in exported["rubrics"]}
    assert release.rubrics_count == len(remaining)
    assert release.counts["severity"]["mild"] == {"samples": 1, "rubrics": 1}


def test_a_disputed_sample_is_discarded_at_once(batch: Batch, sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, reject_as_disputed)
    assert sample.status == Sample.Status.DISCARDED
    assert latest_version(sample).status == SampleVersion.Status.REJECTED
    assert latest_version(sample).reasons == [f"Medical experts genuinely disagree: {REASON}"]
    assert Draft.objects.filter(batch=batch).count() == 1, "no next version is queued"
    assert sweep(BATCHES) == []


def test_a_disputed_sample_with_an_inadequate_rubric_is_regenerated(sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, lambda answers: replace(reject_with_inadequate_rubric(answers), reason_code="disagreement"))
    assert sample.status == Sample.Status.REGENERATING


@pytest.mark.both
@pytest.mark.parametrize(
    ("change", "reasons"),
    [(reject, [CODED_REASON]), (reject_with_inadequate_rubric, [CODED_REASON, "R1: It is about another drug."])],
    ids=["consensus", "rubric"],
)
def test_a_rejected_sample_is_regenerated_with_the_reasons(
    batch: Batch, sample: Sample, ana: User, bo: User, change: Callable[[Answers], Answers], reasons: list[str]
) -> None:
    decide(sample, ana, bo, change)
    first = latest_version(sample)
    assert (first.status, first.reasons) == (SampleVersion.Status.REJECTED, reasons)
    assert sample.status == Sample.Status.REGENERATING
    batch.refresh_from_db()
    assert (batch.status, batch.finished_at) == (Batch.Status.RUNNING, None)
    assert sweep(BATCHES) == [batch.pk]

    batches_services.work_on_batch(batch.pk)
    second = latest_version(sample)
    assert (second.number, second.status, second.case.version) == (2, SampleVersion.Status.IN_REVIEW, 2)
    assert second.case.lineage == first.case.lineage == sample.key
    assert second.case.state == Case.State.PRIMARY, "review starts again with the primary"
    assert list(second.case.frozen.asked_for) == reasons
    assert second.content["turns"] != first.content["turns"]
    [call] = calls(f"draft:{second.draft_id}")
    prompt = call.sent["messages"][-1]["content"]
    assert all(reason in prompt for reason in reasons)
    assert first.content["turns"][-1]["content"] in prompt, "the rejected version"
    assert first.rubrics.order_by("pk")[0].criterion in prompt
    sample.refresh_from_db()
    assert sample.status == Sample.Status.IN_REVIEW
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED

    decide(sample, ana, bo, unchanged)
    assert sample.status == Sample.Status.APPROVED
    assert list(sample.versions.order_by("number").values_list("status", flat=True)) == ["rejected", "approved"]


def test_a_sample_is_discarded_after_its_third_rejection(batch: Batch, sample: Sample, ana: User, bo: User) -> None:
    for number in (1, 2, 3):
        assert latest_version(sample).number == number
        decide(sample, ana, bo, reject)
        batches_services.work_on_batch(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED
    assert list(sample.versions.values_list("status", flat=True)) == ["rejected"] * 3
    assert Draft.objects.count() == 3
    assert sweep(BATCHES) == []
    assert list(samples_queries.samples(status="discarded")) == [sample]


def test_a_withdrawn_case_withdraws_the_sample(sample: Sample, adela: User, ana: User) -> None:
    cases_services.withdraw(latest_version(sample).case_id, actor=adela, reason="The source was retracted.")
    assert outcomes_services.apply_outcomes() == 1
    sample.refresh_from_db()
    assert (sample.status, latest_version(sample).status) == ("withdrawn", "withdrawn")
    assert Draft.objects.count() == 1, "no next version is queued"


def test_an_outcome_is_applied_once(sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, reject)
    assert outcomes_services.apply_outcomes() == 0
    assert Draft.objects.count() == 2


def test_concurrent_workers_apply_each_outcome_once(
    tmp_path: Path, run_concurrently: RunConcurrently, models: str
) -> None:
    batch = run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 12)), endpoint(models))
    ana, bo = account("ana"), account("bo")
    for change in [reject, unchanged] * 6:
        claim_and_submit(ana, partial(changed_approval, change))
        claim_and_submit(bo, partial(changed_approval, change), partial(changed_approval, change))
    outcomes = run_concurrently([outcomes_services.apply_outcomes] * 4)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert sum(outcomes) == 12
    assert Draft.objects.filter(version=2).count() == 6
    assert batch.samples.filter(status=Sample.Status.APPROVED).count() == 6
    assert batch.samples.filter(status=Sample.Status.REGENERATING).count() == 6


def test_a_rejected_sample_of_a_cancelled_batch_is_discarded(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 3))
    batch = run_batch(source, endpoint(models), 1)
    Batch.objects.update(status=Batch.Status.RUNNING)
    jobs_services.cancel(batch.pk)
    sample = batch.samples.get()
    decide(sample, ana, bo, reject)
    assert sample.status == Sample.Status.DISCARDED
    assert latest_version(sample).reasons == [CODED_REASON]
    batch.refresh_from_db()
    assert batch.status == Batch.Status.CANCELLED, "the drafts that were still queued must not be resumed"
    assert sweep(BATCHES) == []


def test_cancelling_a_batch_discards_samples_that_wait_for_regeneration(
    batch: Batch, sample: Sample, ana: User, bo: User
) -> None:
    decide(sample, ana, bo, reject)
    jobs_services.cancel(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED


def test_cancelling_a_batch_during_a_regeneration_discards_the_sample(
    batch: Batch, sample: Sample, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_outputs = batches_services._store_outputs

    def cancel_and_store(*arguments: Any) -> None:
        jobs_services.cancel(batch.pk)
        store_outputs(*arguments)

    decide(sample, ana, bo, reject)
    monkeypatch.setattr(batches_services, "_store_outputs", cancel_and_store)
    batches_services.work_on_batch(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED
    assert sample.versions.count() == 1, "physicians never see the next version"
    draft = Draft.objects.get(version=2)
    assert (draft.status, draft.detail) == (Status.DROPPED, "The sample is already discarded.")


def test_a_next_version_that_the_recipe_drops_discards_the_sample(
    batch: Batch, sample: Sample, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drop(draft: Any, models: Any) -> Any:
        raise Dropped("No other trap fits.")

    decide(sample, ana, bo, reject)
    monkeypatch.setattr(recipe, "RECIPE", replace(recipe.RECIPE, steps=(per_draft(drop),)))
    batches_services.work_on_batch(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED
    assert Draft.objects.get(version=2).status == Status.DROPPED


def test_a_failed_next_version_can_be_retried(batch: Batch, sample: Sample, ana: User, bo: User, models: str) -> None:
    decide(sample, ana, bo, reject)
    generator = endpoint(models)
    type(generator).objects.update(model="sim-generator+refusal")
    batches_services.work_on_batch(batch.pk)
    assert Draft.objects.get(version=2).status == Status.FAILED
    sample.refresh_from_db()
    assert sample.status == Sample.Status.REGENERATING
    type(generator).objects.update(model="sim-generator")
    assert jobs_services.retry_failed(batch.pk) == 1
    batches_services.work_on_batch(batch.pk)
    assert latest_version(sample).number == 2


def test_a_failed_next_version_is_shown_and_retried_by_hand(
    batch: Batch, sample: Sample, ana: User, bo: User, adela: User, models: str, client: Client
) -> None:
    decide(sample, ana, bo, reject)
    generator = endpoint(models)
    type(generator).objects.update(model="sim-generator+refusal")
    batches_services.work_on_batch(batch.pk)
    client.force_login(adela)
    assert (
        "Version 2 could not be generated"
        in client.get(reverse("generation:sample", args=[sample.pk])).content.decode()
    )
    failed = client.get(reverse("api:sample", args=[sample.pk])).json()["failed_version"]
    assert (failed["version"], bool(failed["error"])) == (2, True)
    type(generator).objects.update(model="sim-generator")
    assert client.post(reverse("api:sample-retry", args=[sample.pk])).status_code == 202
    assert client.post(reverse("api:sample-retry", args=[sample.pk])).status_code == 409, "it is queued"
    batch.refresh_from_db()
    assert batch.status == Batch.Status.RUNNING
    batches_services.work_on_batch(batch.pk)
    assert latest_version(sample).number == 2
    assert client.get(reverse("api:sample", args=[sample.pk])).json()["failed_version"] is None


def test_a_discarded_record_is_drawn_again_with_another_trap(
    batch: Batch,
    sample: Sample,
    ana: User,
    bo: User,
    adela: User,
    client: Client,
    sent_tasks: list[tuple[Any, ...]],
    django_capture_on_commit_callbacks: Any,
) -> None:
    client.force_login(adela)
    address = reverse("api:sample-draw-again", args=[sample.pk])
    assert client.post(address, {}, content_type="application/json").status_code == 409, "it is in review"
    decide(sample, ana, bo, reject_as_disputed)
    [used, *_more] = latest_version(sample).traps
    assert client.post(address, {"trap": used}, content_type="application/json").status_code == 422
    page = client.get(reverse("generation:sample", args=[sample.pk])).content.decode()
    assert "Draw this record again" in page
    assert f'<option value="{used}">' not in page
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(address, {}, content_type="application/json").json()
    assert ("run_lane",) in sent_tasks, "workers need not wait for the sweeper"
    assert answer["version"] == 2
    assert answer["preferred"] != [used]
    batches_services.work_on_batch(batch.pk)
    second = latest_version(sample)
    assert (second.number, second.draft.preferred) == (2, answer["preferred"])
    [call] = calls(f"draft:{second.draft_id}")
    assert REASON in call.sent["messages"][-1]["content"], "the generator is shown why the first one was rejected"
    decide(sample, ana, bo, unchanged)
    assert sample.status == Sample.Status.APPROVED


def test_the_command_retries_a_failed_version_and_draws_a_discarded_record_again(
    batch: Batch, sample: Sample, ana: User, bo: User, models: str, manage: Manage
) -> None:
    assert "has failed" in manage.refusal("next_version", "retry", sample.pk)
    decide(sample, ana, bo, reject)
    generator = endpoint(models)
    type(generator).objects.update(model="sim-generator+refusal")
    batches_services.work_on_batch(batch.pk)
    type(generator).objects.update(model="sim-generator")
    assert manage.json("next_version", "retry", sample.pk)["version"] == 2
    batches_services.work_on_batch(batch.pk)
    decide(sample, ana, bo, reject_as_disputed)
    assert sample.status == Sample.Status.DISCARDED
    trap = regeneration.other_traps(sample)[-1].code
    assert "--trap goes with" in manage.refusal("next_version", "retry", sample.key, "--trap", trap)
    again = manage.json("next_version", "draw-again", sample.key, "--trap", trap)
    assert (again["version"], again["preferred"]) == (3, [trap])


def test_physicians_can_review_the_second_version(batch: Batch, sample: Sample, physicians: list[User]) -> None:
    decide(sample, physicians[0], physicians[1], reject)
    batches_services.work_on_batch(batch.pk)
    assert approve_everything(physicians) == 3
    assert outcomes_services.apply_outcomes() == 1
    assert list(Case.objects.order_by("version").values_list("state", flat=True)) == ["rejected", "approved"]
