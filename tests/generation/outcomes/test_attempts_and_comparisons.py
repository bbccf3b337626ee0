"""What physicians decide comes back to the sample, once: settled wordings, the next version with the reasons, an end."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from generation.batches import services as batches_services
from generation.batches.kind import BATCHES
from generation.engine.sweeping import sweep
from generation.jobs import services as jobs_services
from generation.models import Batch, Draft, Sample, SampleVersion
from generation.models.work import Work
from generation.recipes.recipe import Dropped, per_draft
from generation.releases import export
from generation.releases import services as releases_services
from generation.samples import queries as samples_queries
from generation.samples import services as samples_services
from mhb_site.benchmarks.mhb import recipe
from review.cases import services as cases_services
from review.models import Case, User
from review.rules.questions import AddedRubric, Answers, Form, RubricAnswer
from tests.conftest import Together
from tests.engine import calls, conversations_file, endpoint, generated, imported
from tests.populations import population
from tests.review.approve import EVIDENCE, approval, approve_everything
from tests.review.factories import account, say

pytestmark = pytest.mark.django_db
Status = Work.Status
WHY = "Nobody would ask for a dose in this way."
CODED = f"Missing context: {WHY}"


@population
def batch(folder: Path, models: str) -> Batch:
    """One sample before physicians."""
    return generated(imported(conversations_file(folder / "own.jsonl", 1)), endpoint(models))


@pytest.fixture
def sample(batch: Batch) -> Sample:
    return batch.samples.get()


def latest(sample: Sample) -> SampleVersion:
    found = sample.versions.select_related("case").order_by("-number").first()
    assert found is not None
    return found


def decide(sample: Sample, primary: User, secondary: User, change: Callable[[Answers], Answers]) -> None:
    """Both reviewers of the latest version give the same answers, and it is carried over."""
    answers = change(approval(latest(sample).case.frozen.form))
    say(primary, answers)
    say(secondary, answers, answers)
    assert samples_services.apply_outcomes() == 1
    sample.refresh_from_db()


def _of(how: Callable[[Answers], Answers], form: Form) -> Answers:
    return how(approval(form))


def as_it_is(answers: Answers) -> Answers:
    return answers


def rejecting(answers: Answers) -> Answers:
    return replace(answers, verdict="reject", reason=WHY, reason_code="context")


def disputed(answers: Answers) -> Answers:
    return replace(answers, verdict="reject", reason=WHY, reason_code="disagreement")


def inadequate(answers: Answers) -> Answers:
    rubrics = {**answers.rubrics, "R1": RubricAnswer("inadequate", note="It is about another drug.")}
    return rejecting(replace(answers, rubrics=rubrics))


def corrected(answers: Answers) -> Answers:
    finding = RubricAnswer("corrected", wording=" Says that it is unknown. ", severity="death")
    return replace(answers, rubrics={**answers.rubrics, "R1": finding})


def test_nothing_is_decided_before_the_case_is_closed(sample: Sample, ana: User) -> None:
    say(ana, approval(latest(sample).case.frozen.form))
    assert samples_services.apply_outcomes() == 0
    assert Sample.objects.get().status == Sample.Status.IN_REVIEW


def test_approved_with_the_wording_that_was_settled_on(sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, corrected)
    version = latest(sample)
    assert (sample.status, version.status) == (Sample.Status.APPROVED, SampleVersion.Status.APPROVED)
    first, *others = version.rubrics.order_by("pk")
    assert first.approved == "Says that it is unknown."
    assert first.criterion != first.approved, "what was generated is kept beside it"
    assert others
    assert all(rubric.approved == rubric.criterion for rubric in others)
    [exported] = export.exported_samples(releases_services.freeze_release("own", benchmark="mhb"))
    assert exported["rubrics"][0]["criterion"] == "Says that it is unknown."


def test_approved_with_a_rubric_removed_and_one_added(sample: Sample, ana: User, bo: User) -> None:
    [tag, *_others] = latest(sample).case.frozen.form.tags
    own = AddedRubric("Names where the claim could be looked up.", (tag,), "mild")

    def reworked(answers: Answers) -> Answers:
        removed = RubricAnswer("removed", note="R2 says it.")
        return replace(answers, rubrics={**answers.rubrics, "R1": removed}, added=(own,))

    decide(sample, ana, bo, reworked)
    version = latest(sample)
    rubrics = {rubric.key: rubric for rubric in version.rubrics.order_by("pk")}
    assert (rubrics["R1"].removed, rubrics["R1"].added) == (True, False)
    assert {rubric.severity for key, rubric in rubrics.items() if key not in ("R1", "P1")} == {"moderate"}
    added = rubrics["P1"]
    assert (added.added, added.removed, added.severity, added.traps) == (True, False, "mild", [tag])
    assert added.approved == added.criterion == own.criterion
    assert version.citations == [asdict(EVIDENCE)]
    release = releases_services.freeze_release("own", benchmark="mhb")
    [exported] = export.exported_samples(release)
    standing = [key for key in rubrics if key != "R1"]
    assert [rubric["key"] for rubric in exported["rubrics"]] == standing
    assert [(rubric["key"], rubric["severity"]) for rubric in exported["rubrics"]][-1] == ("P1", "mild")
    assert "R1" not in {rubric["key"] for rubric in exported["rubrics"]}
    assert release.rubrics_count == len(standing)
    assert release.counts["severity"]["mild"] == {"samples": 1, "rubrics": 1}


def test_what_no_version_can_mend_is_discarded_at_once(batch: Batch, sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, disputed)
    assert sample.status == Sample.Status.DISCARDED
    assert latest(sample).status == SampleVersion.Status.REJECTED
    assert latest(sample).reasons == [f"Medical experts genuinely disagree: {WHY}"]
    assert Draft.objects.filter(batch=batch).count() == 1, "no next version is queued"
    assert sweep(BATCHES) == []


def test_a_disputed_sample_with_a_rubric_that_is_off_comes_back(sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, lambda answers: replace(inadequate(answers), reason_code="disagreement"))
    assert sample.status == Sample.Status.REGENERATING


@pytest.mark.both
@pytest.mark.parametrize(
    ("how", "reasons"),
    [(rejecting, [CODED]), (inadequate, [CODED, "R1: It is about another drug."])],
    ids=["consensus", "rubric"],
)
def test_rejected_it_comes_back_with_the_reasons(
    batch: Batch, sample: Sample, ana: User, bo: User, how: Callable[[Answers], Answers], reasons: list[str]
) -> None:
    decide(sample, ana, bo, how)
    first = latest(sample)
    assert (first.status, first.reasons) == (SampleVersion.Status.REJECTED, reasons)
    assert sample.status == Sample.Status.REGENERATING
    batch.refresh_from_db()
    assert (batch.status, batch.finished_at) == (Batch.Status.RUNNING, None)
    assert sweep(BATCHES) == [batch.pk]

    batches_services.work_on_batch(batch.pk)
    second = latest(sample)
    assert (second.number, second.status, second.case.version) == (2, SampleVersion.Status.IN_REVIEW, 2)
    assert second.case.lineage == first.case.lineage == sample.key
    assert second.case.state == Case.State.PRIMARY, "the cycle begins anew"
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

    decide(sample, ana, bo, as_it_is)
    assert sample.status == Sample.Status.APPROVED
    assert list(sample.versions.order_by("number").values_list("status", flat=True)) == ["rejected", "approved"]


def test_rejected_again_and_again_it_is_discarded(batch: Batch, sample: Sample, ana: User, bo: User) -> None:
    for number in (1, 2, 3):
        assert latest(sample).number == number
        decide(sample, ana, bo, rejecting)
        batches_services.work_on_batch(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED
    assert list(sample.versions.values_list("status", flat=True)) == ["rejected"] * 3
    assert Draft.objects.count() == 3
    assert sweep(BATCHES) == []
    assert list(samples_queries.samples(status="discarded")) == [sample]


def test_withdrawn(sample: Sample, adela: User, ana: User) -> None:
    cases_services.withdraw(latest(sample).case_id, actor=adela, reason="The source was retracted.")
    assert samples_services.apply_outcomes() == 1
    sample.refresh_from_db()
    assert (sample.status, latest(sample).status) == ("withdrawn", "withdrawn")
    assert Draft.objects.count() == 1, "nothing is made anew"


def test_handled_once(sample: Sample, ana: User, bo: User) -> None:
    decide(sample, ana, bo, rejecting)
    assert samples_services.apply_outcomes() == 0
    assert Draft.objects.count() == 2


def test_handled_once_by_several_at_once(tmp_path: Path, together: Together, models: str) -> None:
    batch = generated(imported(conversations_file(tmp_path / "own.jsonl", 12)), endpoint(models))
    ana, bo = account("ana"), account("bo")
    for how in [rejecting, as_it_is] * 6:
        say(ana, partial(_of, how))
        say(bo, partial(_of, how), partial(_of, how))
    outcomes = together([samples_services.apply_outcomes] * 4)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert sum(outcomes) == 12
    assert Draft.objects.filter(version=2).count() == 6
    assert batch.samples.filter(status=Sample.Status.APPROVED).count() == 6
    assert batch.samples.filter(status=Sample.Status.REGENERATING).count() == 6


def test_a_sample_of_a_cancelled_batch_is_not_made_again(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 3))
    batch = generated(source, endpoint(models), 1)
    Batch.objects.update(status=Batch.Status.RUNNING)
    jobs_services.cancel(batch.pk)
    sample = batch.samples.get()
    decide(sample, ana, bo, rejecting)
    assert sample.status == Sample.Status.DISCARDED
    assert latest(sample).reasons == [CODED]
    batch.refresh_from_db()
    assert batch.status == Batch.Status.CANCELLED, "what it had not come to must not be taken up again"
    assert sweep(BATCHES) == []


def test_a_batch_cancelled_while_a_sample_waits_to_be_made_again(
    batch: Batch, sample: Sample, ana: User, bo: User
) -> None:
    decide(sample, ana, bo, rejecting)
    jobs_services.cancel(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED


def test_a_batch_cancelled_while_a_model_makes_the_next_version(
    batch: Batch, sample: Sample, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = batches_services._store_outputs

    def keep_after_cancelling(*arguments: Any) -> None:
        jobs_services.cancel(batch.pk)
        keep(*arguments)

    decide(sample, ana, bo, rejecting)
    monkeypatch.setattr(batches_services, "_store_outputs", keep_after_cancelling)
    batches_services.work_on_batch(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED
    assert sample.versions.count() == 1, "physicians see nothing of it"
    draft = Draft.objects.get(version=2)
    assert (draft.status, draft.detail) == (Status.DROPPED, "The sample is discarded by now.")


def test_a_next_version_that_the_recipe_gives_up(
    batch: Batch, sample: Sample, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def give_up(draft: Any, models: Any) -> Any:
        raise Dropped("No other trap fits.")

    decide(sample, ana, bo, rejecting)
    monkeypatch.setattr(recipe, "RECIPE", replace(recipe.RECIPE, steps=(per_draft(give_up),)))
    batches_services.work_on_batch(batch.pk)
    sample.refresh_from_db()
    assert sample.status == Sample.Status.DISCARDED
    assert Draft.objects.get(version=2).status == Status.DROPPED


def test_a_next_version_that_fails_can_be_tried_again(
    batch: Batch, sample: Sample, ana: User, bo: User, models: str
) -> None:
    decide(sample, ana, bo, rejecting)
    generator = endpoint(models)
    type(generator).objects.update(model="sim-generator+refusal")
    batches_services.work_on_batch(batch.pk)
    assert Draft.objects.get(version=2).status == Status.FAILED
    sample.refresh_from_db()
    assert sample.status == Sample.Status.REGENERATING
    type(generator).objects.update(model="sim-generator")
    assert jobs_services.retry_failed(batch.pk) == 1
    batches_services.work_on_batch(batch.pk)
    assert latest(sample).number == 2


def test_the_panel_takes_the_second_version_in_its_stride(batch: Batch, sample: Sample, physicians: list[User]) -> None:
    decide(sample, physicians[0], physicians[1], rejecting)
    batches_services.work_on_batch(batch.pk)
    assert approve_everything(physicians) == 3
    assert samples_services.apply_outcomes() == 1
    assert list(Case.objects.order_by("version").values_list("state", flat=True)) == ["rejected", "approved"]
