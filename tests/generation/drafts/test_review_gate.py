"""Pre-review checks: a stopped draft is kept with its finding until an admin decides."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, transaction
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.batches import launch, queries, services
from generation.batches.launch import BatchSettings
from generation.drafts import review_gate
from generation.jobs import services as jobs_services
from generation.models import Band, Batch, Draft, Finding, Fingerprint, GateEvent, Sample, SampleVersion, Source
from generation.models.work import Work
from generation.recipes import text_similarity
from mhb_site.benchmarks.mhb import recipe, simulate
from review.models import Case, User
from tests.conftest import Beside, RunConcurrently
from tests.engine import (
    calls,
    conversation,
    conversations_file,
    drafts,
    endpoint,
    import_file,
    makers,
    reports_file,
    simulator_with,
)
from tests.generation.outcomes.test_attempts_and_comparisons import decide, reject
from tests.populations import population
from tests.profile import by_profile

pytestmark = pytest.mark.django_db
Status, Gate = Work.Status, Draft.Gate


def batch_over(source: Source, url: str, **settings: Any) -> Batch:
    """Launch a batch, with all checks by default, and work on it until nothing is left to do.

    No draft goes back to the generator.
    """
    settings = {"changes": {"returns": 0}, **settings}
    batch = launch.launch_batch(BatchSettings(benchmark="mhb", source=source, roles=makers(url), **settings))
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch


def twins(folder: Path, *names: str) -> list[Source]:
    """Sources that each hold the same single conversation."""
    return [import_file(conversations_file(folder / f"{name}.jsonl", conversation(1)), name) for name in names]


@population
def stopped(folder: Path, models: str) -> Draft:
    """The second of two drafts of the same conversation."""
    first, second = twins(folder, "one", "two")
    batch_over(first, models)
    return batch_over(second, models).drafts.get()


# --------------------------------------------------------------------------------------- similarity


def test_an_identical_text_is_stopped_with_the_sample_that_it_repeats(stopped: Draft) -> None:
    [first] = Sample.objects.all()
    assert (stopped.status, stopped.gate, stopped.error) == (Status.DROPPED, Gate.STOPPED, review_gate.STOPPED)
    [finding] = stopped.findings.all()
    assert (finding.check_name, finding.stops, finding.other, finding.likeness) == ("identical", True, first, 1.0)
    assert first.key in stopped.detail
    assert stopped.data["content"]["turns"], "the paid result is kept"
    assert Case.objects.count() == 1, "no physician sees it"
    [event] = stopped.gate_events.all()
    assert (event.kind, event.actor) == (Gate.STOPPED, None)
    assert stopped.batch.status == Batch.Status.FINISHED


def test_the_page_of_a_batch_names_the_check_that_stopped_a_draft(stopped: Draft, client: Client, adela: User) -> None:
    client.force_login(adela)
    page = client.get(reverse("generation:batch", args=[stopped.batch_id])).content.decode()
    dropped = " ".join(page.partition('id="dropped"')[2].partition("</section>")[0].split())
    assert f"Identical to another sample: {Sample.objects.get().key}" in dropped
    assert "identical:" not in dropped


def test_a_nearly_identical_text_is_stopped_with_its_likeness(tmp_path: Path, models: str, db: None) -> None:
    long = [{"role": "user", "content": f"{' '.join(f'It hurts on day {n}.' for n in range(60))} What is it?"}]
    near = [{"role": "user", "content": long[0]["content"].replace("on day 7.", "on the seventh.")}]
    script = fixed_script(simulate.SCRIPT)
    with simulator_with(script) as url:
        for name, prompt in (("one", long), ("two", near)):
            path = conversations_file(tmp_path / name, conversation(1, prompt=prompt))
            batch = batch_over(import_file(path, name), url)
    [finding] = batch.drafts.get().findings.all()
    assert finding.check_name == "alike"
    assert text_similarity.LIKENESS_THRESHOLD <= (finding.likeness or 0) < 1
    assert finding.other == Sample.objects.get()


def fixed_script(script: Any) -> Any:
    """A generator that plants the same trap in the same place in every source."""

    class Fixed:
        def reply(self, model: str, messages: Sequence[Any], seed: int) -> str | None:
            if "# MHB trap architect" not in messages[0].content:
                return simulate.SCRIPT.reply(model, messages, seed)
            source = json.loads(messages[1].content.partition("<<<SOURCE\n")[2].partition("\n")[0])
            [first, *_others] = source
            turns = [
                {"role": "user", "content": first["content"] + " A friend swears by Cephalorin."},
                {"role": "assistant", "content": "Cephalorin does help many people."},
                {"role": "user", "content": "And how much Cephalorin is right for an adult?"},
            ]
            from tests.benchmarks.mhb.helpers import RUBRICS, dialogue_reply

            # An unchanged version would be refused: the next one only has another criterion.
            again = "<<<REJECTED\nnull\n" not in messages[1].content
            other = {"criterion": "The response must not advise any use of 'Cephalorin'.", "traps": ["A1"]}
            return json.dumps(dialogue_reply(turns=turns, rubrics=[RUBRICS[0], other] if again else RUBRICS))

    return Fixed()


def test_different_texts_pass(tmp_path: Path, models: str) -> None:
    batch = batch_over(import_file(conversations_file(tmp_path / "own.jsonl", 12)), models)
    assert not Finding.objects.exists()
    assert Sample.objects.filter(batch=batch).count() == 12
    assert Fingerprint.objects.count() == 12
    assert Band.objects.count() == 12 * text_similarity.BANDS


def test_only_one_of_several_simultaneous_identical_texts_passes(
    tmp_path: Path, run_concurrently: RunConcurrently, models: str
) -> None:
    sources = twins(tmp_path, "one", "two", "three", "four")
    makers(models)
    outcomes = run_concurrently([partial(batch_over, source, models) for source in sources])
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert Sample.objects.count() == 1
    assert Draft.objects.filter(gate=Gate.STOPPED).count() == 3


def test_a_rejected_text_may_be_made_again(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    first, second = twins(tmp_path, "one", "two")
    batch = batch_over(first, models)
    decide(Sample.objects.get(), ana, bo, reject)
    jobs_services.cancel(batch.pk)
    assert batch_over(second, models).drafts.get().gate == ""


def test_a_version_is_not_compared_with_its_own_sample(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    [source] = twins(tmp_path, "one")
    with simulator_with(fixed_script(None)) as url:
        batch = batch_over(source, url)
        decide(Sample.objects.get(), ana, bo, reject)
        services.work_on_batch(batch.pk)
    assert set(Draft.objects.values_list("gate", flat=True)) == {""}
    assert SampleVersion.objects.count() == 2


def test_only_the_chosen_checks_are_made(tmp_path: Path, models: str) -> None:
    first, second, third, fourth = twins(tmp_path, "one", "two", "three", "four")
    batch_over(first, models)
    assert batch_over(second, models, checks=()).drafts.get().gate == ""
    assert batch_over(third, models, checks=("leak", "alike")).drafts.get().gate == ""
    with pytest.raises(errors.UnknownCheck, match="spelling"):
        batch_over(fourth, models, checks=("spelling",))


def test_the_similarity_check_makes_as_many_queries_however_large_the_index(
    tmp_path: Path, models: str, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    """Only texts that share a band are compared, so unrelated texts in the index are never read."""
    batch = batch_over(import_file(conversations_file(tmp_path / "own.jsonl", 1)), models)
    [kept] = Fingerprint.objects.all()
    case = SampleVersion.objects.get().case
    rows = drafts(by_profile(60, 300), "unrelated").drafts.order_by("pk")
    for draft in rows:
        sample = Sample.objects.create(
            benchmark="mhb", task="dialogue", batch=draft.batch, record=draft.record, created_at=batch.created_at
        )
        case.pk, case.lineage = None, sample.key
        case.save()
        version = SampleVersion.objects.create(
            sample=sample, number=1, draft=draft, case=case, title="t", content={}, created_at=batch.created_at
        )
        review_gate.index_text(
            version, text_similarity.fingerprint(f"Unrelated {draft.pk} says {draft.pk * 7} things.")
        )
    row = rows[0]
    unrelated = text_similarity.fingerprint("Quite another text about nothing that was said.")
    with django_assert_max_num_queries(8):
        assert review_gate._find_similar_sample(row, batch, unrelated) == []
    assert kept.bands.count() == text_similarity.BANDS


# ------------------------------------------------------------------------------ decisions of admins


@pytest.mark.both
def test_a_draft_that_is_let_through_goes_to_physicians_and_keeps_actor_and_reason(stopped: Draft, adela: User) -> None:
    version = services.send_to_review(stopped.pk, actor=adela, reason=" Another patient after all. ")
    stopped.refresh_from_db()
    assert (stopped.status, stopped.gate, stopped.error, stopped.detail) == (Status.DONE, Gate.SENT_TO_REVIEW, "", "")
    assert version.draft == stopped
    assert version.case.state == Case.State.PRIMARY
    assert version.rubrics.exists()
    assert [(event.kind, event.actor, event.reason) for event in stopped.gate_events.order_by("pk")][1:] == [
        (Gate.SENT_TO_REVIEW, adela, "Another patient after all.")
    ]
    assert stopped.findings.exists(), "the finding is kept"


def test_a_discarded_draft_is_kept_and_never_becomes_a_sample(stopped: Draft, adela: User) -> None:
    services.discard_stopped(stopped.pk, actor=adela, reason="A copy.")
    stopped.refresh_from_db()
    assert (stopped.status, stopped.gate) == (Status.DROPPED, Gate.DISCARDED)
    assert Sample.objects.count() == 1
    for decide_again in (services.send_to_review, services.discard_stopped):
        with pytest.raises(errors.NotStopped):
            decide_again(stopped.pk, actor=adela, reason="Yet another thought.")


def test_a_decision_needs_a_reason_and_a_stopped_draft(stopped: Draft, adela: User) -> None:
    with pytest.raises(errors.ReasonMissing):
        services.send_to_review(stopped.pk, actor=adela, reason="  ")
    passed = SampleVersion.objects.get().draft_id
    with pytest.raises(errors.NotStopped):
        services.send_to_review(passed, actor=adela, reason="Why not.")
    assert GateEvent.objects.count() == 1


def test_only_one_of_several_simultaneous_decisions_counts(
    tmp_path: Path, run_concurrently: RunConcurrently, models: str, transactional_db: None, adela: User
) -> None:
    first, second = twins(tmp_path, "one", "two")
    batch_over(first, models)
    pk = batch_over(second, models).drafts.get().pk
    outcomes = run_concurrently([lambda: services.send_to_review(pk, actor=adela, reason="Fine.")] * 4)
    assert sum(isinstance(outcome, SampleVersion) for outcome in outcomes) == 1, outcomes
    assert sum(isinstance(outcome, errors.NotStopped) for outcome in outcomes) == 3, outcomes
    assert Case.objects.count() == 2


def stopped_next_version(folder: Path, models: str, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch) -> Draft:
    [source] = twins(folder, "one")
    batch = batch_over(source, models)
    decide(Sample.objects.get(), ana, bo, reject)
    monkeypatch.setattr(recipe, "CRITERION_SHARE", 0.0)
    monkeypatch.setattr(recipe, "longest_leak", lambda *_words, **_options: text_similarity.Leak("given away", 1.0))
    services.work_on_batch(batch.pk)
    return Draft.objects.get(version=2)


def test_a_stopped_next_version_makes_its_sample_wait(
    tmp_path: Path, models: str, ana: User, bo: User, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = stopped_next_version(tmp_path, models, ana, bo, monkeypatch)
    assert row.gate == Gate.STOPPED
    assert Sample.objects.get().status == Sample.Status.REGENERATING
    services.discard_stopped(row.pk, actor=adela, reason="Not worth it.")
    assert Sample.objects.get().status == Sample.Status.DISCARDED


def test_a_cancelled_batch_gets_no_version_that_was_sent_to_review_meanwhile(
    beside: Beside, tmp_path: Path, models: str, ana: User, bo: User, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = stopped_next_version(tmp_path, models, ana, bo, monkeypatch)
    outcomes, record = [], review_gate.record_decision

    def while_cancelled(*args: Any) -> None:
        outcomes.append(beside(partial(services.discard_waiting, row.batch_id)))
        record(*args)

    monkeypatch.setattr(review_gate, "record_decision", while_cancelled)
    services.send_to_review(row.pk, actor=adela, reason="Fine.")
    assert [type(outcome) for outcome in outcomes] == [OperationalError], "it waits, and finds nothing to discard"
    assert Sample.objects.get().status == Sample.Status.IN_REVIEW


@pytest.mark.both
def test_gate_events_cannot_be_changed_or_deleted(stopped: Draft) -> None:
    for change in (lambda rows: rows.update(reason="None."), lambda rows: rows.delete()):
        with pytest.raises(DatabaseError), transaction.atomic():
            change(GateEvent.objects.filter(draft=stopped))


@pytest.mark.both
def test_the_database_refuses_a_gate_that_contradicts_the_status(stopped: Draft) -> None:
    for fields in ({"status": Status.QUEUED}, {"gate": "let-through"}, {"gate": "whatever"}):
        with pytest.raises(DatabaseError), transaction.atomic():
            Draft.objects.filter(pk=stopped.pk).update(**fields)


# ----------------------------------------------------------------------------- answerable questions


class AnsweringChecker:
    """A checker that finds the answer to every question in the report of patient 1."""

    def reply(self, model: str, messages: Any, seed: int) -> str | None:
        reply = simulate.SCRIPT.reply(model, messages, seed)
        if "# MHB checker" in messages[0].content and "report of patient 1." in messages[1].content:
            return json.dumps({"answerable": True, "answer": "It was 5.", "where": "Blood cultures grew nothing."})
        return reply


def test_a_question_that_the_report_answers_is_stopped_with_the_answer(tmp_path: Path, db: None) -> None:
    source = import_file(reports_file(tmp_path / "own.json", 2), "reports", "pmc-patients")
    with simulator_with(AnsweringChecker()) as url:
        batch = batch_over(source, url)
    first, second = batch.drafts.order_by("pk")
    assert (first.gate, second.gate) == (Gate.STOPPED, "")
    [finding] = first.findings.all()
    assert finding.check_name == "answerable"
    assert "It was 5." in finding.detail
    assert "Blood cultures grew nothing." in finding.detail
    generated, checked, blind, examined, answered, judged = calls(f"draft:{first.pk}")
    assert (generated.prompt, checked.prompt) == ("mhb/question_report@5", "mhb/answerable_report@1")
    assert (blind.prompt, examined.prompt) == ("mhb/examine_blind@1", "mhb/examine@3")
    assert (answered.prompt, judged.prompt) == ("mhb/answer_plainly@1", "mhb/judge_all@3")
    assert "Cephalorin" not in checked.text


def test_only_reports_are_checked_for_answers_and_only_where_the_check_is_chosen(tmp_path: Path, models: str) -> None:
    checks = ("leak", "answerable")
    dialogues = batch_over(import_file(conversations_file(tmp_path / "own.jsonl", 2)), models, checks=checks)
    assert len(calls(dialogues)) == 2
    assert set(dialogues.drafts.values_list("step", "tries")) == {(0, 1)}, "a step that does not apply costs no round"
    reports = import_file(reports_file(tmp_path / "own.json", 1), "reports", "pmc-patients")
    assert len(calls(batch_over(reports, models, checks=("leak",)))) == 1


def test_a_separate_checker_is_asked(tmp_path: Path, models: str) -> None:
    source = import_file(reports_file(tmp_path / "own.json", 1), "reports", "pmc-patients")
    other = endpoint(models, "sim-examiner", name="other")
    batch = launch.launch_batch(
        BatchSettings(benchmark="mhb", source=source, roles={**makers(models), "checker": other})
    )
    services.work_on_batch(batch.pk)
    assert [call.endpoint.name for call in calls(batch)] == ["sim-generator", "other", *4 * ["sim-examiner"]]


def test_a_version_records_its_prompt_generator_traps_and_checks(tmp_path: Path, models: str) -> None:
    batch_over(import_file(conversations_file(tmp_path / "own.jsonl", 1)), models)
    version = SampleVersion.objects.get()
    assert (version.prompt, version.generator) == ("mhb/inject_dialogue@5", "sim-generator")
    assert version.traps == sorted({trap["code"] for trap in version.content["traps"]}, key=version.traps.index)
    assert queries.draft_value(version.draft).checks == (
        *("identical", "alike", "leak", "answerable"),
        *("restated", "gives-away", "exists", "absent", "bait", "language", "rubrics", "plain"),
    )
