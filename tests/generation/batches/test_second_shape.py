"""A benchmark of another shape than MHB on the same engine.

It has presets, roles that depend on the records' kind, embeddings, lineage, and samples that
nobody reviews.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from generation import errors
from generation.batches import estimate as batches_estimate
from generation.batches import launch as batches_launch
from generation.batches import queries as batches_queries
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.llm.parsing import parse_vectors
from generation.models import (
    Batch,
    BatchRole,
    Call,
    Draft,
    Freeze,
    Reference,
    Release,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
)
from generation.models.work import Work
from generation.outcomes import attempts
from generation.outcomes import services as outcomes_services
from generation.recipes import registry
from generation.recipes.recipe import Preset
from generation.releases import data_card, export
from generation.releases import queries as releases_queries
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from generation.releases.queries import exported_samples
from generation.samples import queries as samples_queries
from review.assignments import claims
from review.cases.queries import cases, funnel
from review.models import Case, User
from review.rules.blocks import Points
from review.rules.state_machine import Ground, State
from tests.conftest import accounts_of
from tests.engine import Manage, calls, endpoint, simulator
from tests.populations import population
from tests.review.approve import approval_of, approve_everything, rejection_of
from tests.review.factories import claim_and_submit
from tests.toys.brew import recipe

WITH_UNREVIEWED = Composition(with_unreviewed=True)
pytestmark = pytest.mark.django_db
Page = Any
HOSTILE = "<script>alert('note')</script>"


@contextmanager
def toy_benchmarks() -> Iterator[None]:
    with override_settings(MHB_BENCHMARKS="tests.toys"):
        registry.module.cache_clear()
        yield
    registry.module.cache_clear()


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    with toy_benchmarks():
        yield


def source_of(*texts: str, kind: str = "note", name: str = "notes") -> Source:
    """Return the source of this name, with a record added for each text."""
    source, _created = Source.objects.get_or_create(
        name=name, defaults={"format": "healthbench", "label": "Notes", "licence": "MIT", "created_at": timezone.now()}
    )
    start = source.records.count()
    SourceRecord.objects.bulk_create(
        SourceRecord(
            source=source,
            external_id=f"{name}-{n}",
            title=f"Note {n}",
            language="en",
            content={"kind": kind, "text": text},
        )
        for n, text in enumerate(texts, start)
    )
    return source


def launch_brew(
    source: Source, models: str, *, embedder: bool = True, limit: int | None = None, **settings: Any
) -> Batch:
    roles = {"writer": endpoint(models)}
    if embedder:
        roles["embedder"] = endpoint(models, "sim-embedder")
    return batches_launch.launch_batch(
        BatchSettings(benchmark="brew", source=source, roles=roles, limit=limit, **settings)
    )


def finished_batch(source: Source, models: str, **options: Any) -> Batch:
    """A batch without failed drafts, after all its work."""
    batch = launch_brew(source, models, **options)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED
    assert not Draft.objects.filter(status=Work.Status.FAILED).exists(), Draft.objects.values("error", "detail")
    return batch


@population
@toy_benchmarks()
def tea_batch(models: str) -> Batch:
    """A finished batch of one note."""
    return finished_batch(source_of("tea"), models)


@population
@toy_benchmarks()
def two_notes(models: str) -> Batch:
    """A finished batch of two notes."""
    return finished_batch(source_of("green tea", "milk"), models)


def text_of(page: Page) -> str:
    return " ".join(page.content.decode().split())


# -------------------------------------------------------------------------------------------- roles


def test_defaults_of_roles_chain_and_optional_roles_may_be_left_out(models: str) -> None:
    batch = launch_brew(source_of("tea"), models, embedder=False)
    assert dict(batch.roles.order_by("pk").values_list("role", "endpoint__name")) == {
        "writer": "sim-generator",
        "taster": "sim-generator",
        "critic": "sim-generator",
    }


def test_an_endpoint_in_the_middle_of_the_chain_plays_the_later_roles_too(models: str) -> None:
    roles = {"writer": endpoint(models), "taster": endpoint(models, "sim-judge")}
    batch = batches_launch.launch_batch(BatchSettings(benchmark="brew", source=source_of("tea"), roles=roles))
    assert dict(batch.roles.values_list("role", "endpoint__name"))["critic"] == "sim-judge"


def test_only_roles_that_the_records_need_must_be_bound(models: str, admin: Client) -> None:
    pairs = source_of("tea is sweet", "coffee is bitter", kind="pair", name="pairs")
    page = text_of(admin.get(reverse("generation:batch-new") + "?benchmark=brew&source=pairs"))
    assert 'name="role-writer"' not in page
    assert "Show estimate" in page, "no endpoint is needed, so the missing endpoint does not matter"
    batch = batches_launch.launch_batch(BatchSettings(benchmark="brew", source=pairs, roles={}))
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED
    assert not BatchRole.objects.exists()
    assert not Call.objects.exists()
    assert set(SampleVersion.objects.values_list("generator", flat=True)) == {""}
    assert Sample.objects.count() == 2
    other = batches_launch.launch_batch(
        BatchSettings(
            benchmark="brew", source=source_of("cocoa", kind="pair", name="pairs"), roles={"writer": endpoint(models)}
        )
    )
    assert not other.roles.exists(), "an endpoint that nothing needs is not bound"


def test_a_missing_or_unknown_role_is_named_in_the_error(models: str) -> None:
    notes = source_of("tea")
    with pytest.raises(errors.RolesUnbound, match="writer, taster, critic") as unbound:
        batches_launch.launch_batch(BatchSettings(benchmark="brew", source=notes, roles={}))
    assert "embedder" not in str(unbound.value)
    with pytest.raises(errors.UnknownRole, match="voter; known: writer, taster"):
        batches_launch.launch_batch(
            BatchSettings(benchmark="brew", source=notes, roles={"writer": endpoint(models), "voter": endpoint(models)})
        )
    assert not Batch.objects.exists()


def test_the_page_asks_for_each_role_once_and_explains_leaving_it_out(models: str, admin: Client) -> None:
    endpoint(models)
    source_of("tea")
    page = text_of(admin.get(reverse("generation:batch-new") + "?benchmark=brew&source=notes"))
    for role in ("writer", "taster", "critic", "embedder"):
        assert page.count(f'name="role-{role}"') == 1
    assert "same as role Taster" in page
    assert page.count(">Records<") == 2, "the step and its heading, but no label of a field"
    assert "none (this role is optional)" in page
    assert 'name="targets.trap"' not in page, "there are no subtypes to plan"


# ------------------------------------------------------------------------------------------ vectors


def test_embeddings_are_in_the_ledger(models: str) -> None:
    embedder = endpoint(models, "sim-embedder", price_in=4)
    finished_batch(source_of("green tea with milk"), models)
    [call] = Call.objects.filter(endpoint=embedder)
    assert (call.prompt, call.error, call.simulated, call.tokens_out) == ("embeddings", "", True, 0)
    assert call.tokens_in > 0
    assert call.cost == Decimal(call.tokens_in * 4) / 1_000_000
    assert call.sent["input"][0] == "green tea with milk"
    assert "messages" not in call.sent
    first, *others = parse_vectors(call.text, len(call.sent["input"]))
    assert {len(first), *map(len, others)} == {48}
    assert Draft.objects.get().data["near"] == [sum(a * b for a, b in zip(first, v, strict=True)) for v in others]


def test_embeddings_of_the_same_texts_are_paid_for_once(models: str) -> None:
    source_of("tea", name="one")
    source_of("tea", name="two")
    first, second = (finished_batch(Source.objects.get(name=name), models) for name in ("one", "two"))
    lines = [[(line.prompt, line.hit_of_id is not None) for line in calls(batch)] for batch in (first, second)]
    assert ("embeddings", False) in lines[0]
    assert ("embeddings", True) in lines[1]
    assert second.calls == 0
    near = Draft.objects.order_by("pk").values_list("data__near", flat=True)
    assert near[0] == near[1]


def test_a_batch_can_run_without_an_embedder(models: str) -> None:
    finished_batch(source_of("tea"), models, embedder=False)
    assert Draft.objects.get().data["near"] == []
    assert SampleVersion.objects.get().provenance["similarity"] == "none"


def test_embeddings_count_against_the_budget(models: str) -> None:
    batch = launch_brew(source_of("tea"), models, budget_calls=2)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.paused_because, batch.calls) == (Batch.Status.PAUSED, "BudgetSpent", 2)
    assert not Call.objects.filter(prompt="embeddings").exists()
    life_cycle.change_limits(batch.pk, budget_money=None, budget_calls=3)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.calls) == (Batch.Status.FINISHED, 3)


@pytest.mark.parametrize("fault", ["wrong-schema", "broken-json"])
def test_invalid_embeddings_fail_the_draft(models: str, fault: str) -> None:
    notes = source_of("tea")
    with simulator() as url:
        roles = {"writer": endpoint(models), "embedder": endpoint(url, f"sim-embedder+{fault}")}
        batch = batches_launch.launch_batch(BatchSettings(benchmark="brew", source=notes, roles=roles))
        batches_services.work_on_batch(batch.pk)
    draft = Draft.objects.get()
    assert (draft.status, draft.error) == (Work.Status.FAILED, "BrokenReply")
    billed = list(Call.objects.filter(prompt="embeddings"))
    assert [call.error for call in billed] == ["BrokenReply"] * 2, "the embedder was asked once more"
    assert all(call.tokens_in > 0 for call in billed), "invalid replies are billed, too"


def test_a_batch_recovers_from_an_embedder_that_fails_now_and_then(models: str) -> None:
    notes = source_of("tea", "coffee", "cocoa", "milk")
    with simulator() as url:
        roles = {"writer": endpoint(models), "embedder": endpoint(url, "sim-embedder+429@0.4+500@0.3+cut@0.3")}
        batch = batches_launch.launch_batch(BatchSettings(benchmark="brew", source=notes, roles=roles))
        for _ in range(5):
            batches_services.work_on_batch(batch.pk)
            jobs_services.retry_failed(batch.pk)
    batch.refresh_from_db()
    assert Draft.objects.filter(status=Work.Status.DONE).count() == 4
    assert Call.objects.filter(prompt="embeddings").exclude(error="").exists()


# ------------------------------------------------------------------------------------------ presets


def test_the_default_preset_is_the_first_and_reaches_every_step(tea_batch: Batch) -> None:
    assert (tea_batch.preset, tea_batch.settings) == ("usual", {"tries": 1, "top_p": 0.95})
    assert Draft.objects.get().data["settings"] == tea_batch.settings
    [write_call] = Call.objects.filter(prompt="brew/write@1")
    assert write_call.sent["top_p"] == 0.95
    [taste_call] = Call.objects.filter(prompt="brew/taste@1")
    assert "top_p" not in taste_call.sent


def test_a_known_preset_can_be_chosen_and_an_unknown_one_is_refused(models: str) -> None:
    batch = finished_batch(source_of("tea"), models, preset="patient")
    assert batch.settings == {"tries": 3, "top_p": None, "cut": 0.75}
    assert Call.objects.filter(prompt="brew/write@1").count() == 3
    with pytest.raises(errors.UnknownPreset, match="'hasty'; known: usual, patient"):
        launch_brew(source_of("coffee"), models, preset="hasty")


def test_values_of_a_preset_can_be_changed_at_launch(models: str) -> None:
    batch = finished_batch(source_of("tea"), models, preset="patient", changes={"tries": 2, "cut": 0.75})
    assert batch.settings == {"tries": 2, "top_p": None, "cut": 0.75}
    assert batch.changed == ["tries"], "a value equal to the preset's is no change"
    assert Call.objects.filter(prompt="brew/write@1").count() == 2
    estimate = batches_estimate.estimate_batch(
        BatchSettings(
            benchmark="brew", source=source_of("milk"), roles={"writer": endpoint(models)}, changes={"tries": 5}
        )
    )
    assert next(line.requests for line in estimate.lines if line.prompt == "brew/write@1") == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"sugar": 1},
        {"tries": "2"},
        {"tries": 1.5},
        {"tries": True},
        {"tries": None},
        {"tries": -1},
        {"cut": [0.5]},
        {"cut": float("nan")},
    ],
    ids=str,
)
def test_an_invalid_value_of_a_setting_is_refused(changes: dict[str, Any], models: str) -> None:
    with pytest.raises(errors.WrongSetting, match=next(iter(changes))):
        launch_brew(source_of("tea"), models, preset="patient", changes=changes)
    assert not Batch.objects.exists()


def test_settings_with_choices_lists_and_flags_are_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Preset("usual", "UsualCalls", "", {"reviewers": "one", "range": [0.3, 0.7], "open": True})
    choices = {"reviewers": ("one", "two")}
    monkeypatch.setattr(recipe, "RECIPE", replace(recipe.RECIPE, presets=(usual,), choices=choices))
    changes = {"reviewers": "two", "range": [0, 1.5], "open": False}
    assert registry.resolve_settings("brew", "", changes) == changes
    invalid: list[dict[str, Any]] = [{"reviewers": "three"}, {"range": [0.1]}, {"range": ["a", "b"]}, {"open": 1}]
    for invalid_changes in invalid:
        with pytest.raises(errors.WrongSetting):
            registry.resolve_settings("brew", "", invalid_changes)


def test_settings_can_be_changed_on_the_page_over_the_api_and_in_the_shell(
    models: str, admin: Client, manage: Manage
) -> None:
    endpoint(models)
    source_of("tea", "coffee", "milk")
    new = reverse("generation:batch-new")
    form = {"benchmark": "brew", "source": "notes", "role-writer": "sim-generator", "limit": "1"}
    for wrong in (("sugar", "1"), ("tries", "[1]"), ("tries", "{"), ("tries", "many"), ("", "1")):
        changes = dict(zip(("changes.name", "changes.value"), wrong, strict=True))
        assert admin.post(new, {**form, **changes}).status_code == 422, wrong
    estimate: Page = admin.post(new, {**form, "changes.name": "tries", "changes.value": "4"})
    assert next(line.requests for line in estimate.context["estimate"].lines if line.prompt == "brew/write@1") == 4
    admin.post(new, {**dict(estimate.context["carried"]), "confirmed": "1"})
    shown = text_of(admin.get(reverse("generation:batch", args=[Batch.objects.get().pk])))
    assert '<dt>tries</dt> <dd>4 <span class="quiet">changed at launch</span></dd>' in shown
    body = {"benchmark": "brew", "source": "notes", "roles": {"writer": "sim-generator"}, "limit": 1, "confirmed": True}

    def post(path: str, **options: Any) -> Page:
        return admin.post(f"/api/v1/{path}", json.dumps({**body, **options}), content_type="application/json")

    assert post("batches/", settings={"sugar": 1}).status_code == 422
    wrong_preset = post("batches/", preset="hasty")
    assert (wrong_preset.status_code, "hasty" in wrong_preset.json()["detail"]) == (422, True)
    lines = post("batches/estimate/", preset="patient", settings={"tries": 4}).json()["lines"]
    assert [line["requests"] for line in lines if line["prompt"] == "brew/write@1"] == [4]
    launched = post("batches/", preset="patient", settings={"tries": 4}).json()
    assert (launched["preset"], launched["changed"]) == ("patient", ["tries"])
    assert launched["settings"] == {"tries": 4, "top_p": None, "cut": 0.75}
    assert set(launched["roles"]) == {"writer", "taster", "critic"}
    launch = ("generate", "--benchmark", "brew", "--source", "notes", "--role", "writer=sim-generator", "--yes")
    assert "'hasty'; known: usual, patient" in manage.refusal(*launch, "--preset", "hasty")
    started = manage.json(*launch, "--preset", "patient", "--set", "tries=4")
    assert (started["preset"], started["changed"]) == ("patient", {"tries": 4})
    assert list(Batch.objects.values_list("settings__tries", flat=True)) == [4, 4, 4]


def test_settings_are_frozen_at_launch(models: str, monkeypatch: pytest.MonkeyPatch, ana: User, bo: User) -> None:
    """A later change of the preset affects neither a batch nor the next versions of its samples."""
    batch = launch_brew(source_of("tea"), models)
    changed = Preset("usual", "Another", "It has changed.", {"tries": 2, "top_p": None})
    monkeypatch.setattr(recipe, "RECIPE", replace(recipe.RECIPE, presets=(changed,)))
    batches_services.work_on_batch(batch.pk)
    claim_and_submit(ana, lambda form: rejection_of(form, "Nobody says so."))
    claim_and_submit(bo, lambda form: rejection_of(form, "No."), lambda form: rejection_of(form, "No."))
    outcomes_services.apply_outcomes()
    batches_services.work_on_batch(batch.pk)
    assert SampleVersion.objects.count() == 2
    assert [version.content["settings"] for version in SampleVersion.objects.all()] == [{"tries": 1, "top_p": 0.95}] * 2


def test_an_estimate_depends_on_preset_and_roles(models: str) -> None:
    notes = source_of("tea", "coffee")
    roles = {"writer": endpoint(models)}

    def requests(**options: Any) -> dict[str, int]:
        estimate = batches_estimate.estimate_batch(
            BatchSettings(benchmark="brew", source=notes, roles=options.pop("roles", roles), **options)
        )
        return {line.prompt: line.requests for line in estimate.lines}

    assert requests() == {"brew/write@1": 2, "brew/taste@1": 2}
    assert requests(preset="patient")["brew/write@1"] == 6
    with_embedder = {**roles, "embedder": endpoint(models, "sim-embedder")}
    assert requests(roles=with_embedder)["embeddings"] == 2
    with pytest.raises(errors.UnknownPreset):
        requests(preset="hasty")


def test_pages_show_the_presets_and_the_chosen_one(models: str, admin: Client) -> None:
    endpoint(models)
    source_of("tea")
    new = reverse("generation:batch-new")
    page = text_of(admin.get(new + "?benchmark=brew&source=notes"))
    assert "Three tries, as the paper has it." in page
    assert "Preset values" in page
    assert ">0.75</td>" in page
    assert page.count('type="radio" name="preset"') == 2
    form = {"benchmark": "brew", "source": "notes", "role-writer": "sim-generator", "preset": "patient"}
    estimate = text_of(admin.post(new, form))
    assert '<input type="hidden" name="preset" value="patient">' in estimate
    admin.post(new, {**form, "confirmed": "1"})
    batch = Batch.objects.get()
    assert batch.preset == "patient"
    shown = text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    assert "The patient one" in shown
    assert "<dt>cut</dt> <dd>0.75</dd>" in shown
    refused = admin.post(new, {**form, "preset": "hasty"})
    assert refused.status_code == 422


# ----------------------------------------------------------------------------- lineage and analysis


def test_pages_of_samples_and_drafts_show_the_lineage(models: str, admin: Client) -> None:
    finished_batch(source_of(f"tea {HOSTILE}"), models)
    Draft.objects.update(data={"remarks": [HOSTILE], "near": [0.25]})
    draft, sample = Draft.objects.get(), Sample.objects.get()
    for url in (reverse("generation:draft", args=[draft.pk]), reverse("generation:sample", args=[sample.pk])):
        page = text_of(admin.get(url))
        assert "Nearness of remarks" in page
        assert "0.25" in page
        assert HOSTILE not in page
        assert "&lt;script&gt;alert(&#x27;note&#x27;)" in page


def test_a_draft_without_data_has_no_lineage(models: str, admin: Client) -> None:
    batch = launch_brew(source_of("tea"), models)
    page = text_of(admin.get(reverse("generation:draft", args=[batch.drafts.get().pk])))
    assert "How it was made" not in page


def test_the_analysis_covers_all_drafts_of_a_batch(models: str, admin: Client) -> None:
    batch = finished_batch(source_of("green tea", "black tea", "milk"), models, preset="patient")
    other = finished_batch(source_of("cocoa"), models)
    url = reverse("generation:batch-analysis", args=[batch.pk])
    assert url in text_of(admin.get(reverse("generation:batch", args=[batch.pk])))
    page = text_of(admin.get(url))
    assert page.count('<path class="point') == 3 * 3 + 3, "a mark each, and a legend of three"
    assert "Show as table" in page
    analysis_json = admin.get(f"/api/v1/batches/{batch.pk}/analysis/").json()
    [block] = analysis_json["blocks"]
    assert (block["kind"], block["x_label"], len(block["points"])) == ("points", "length", 9)
    assert len(batches_queries.analysis(other)) == 1
    assert Client().get(url).status_code == 302


def points_of(batch: Batch) -> list[Any]:
    [block] = batches_queries.analysis(batch)
    assert isinstance(block, Points)
    return list(block.points)


def test_the_analysis_counts_each_sample_once(two_notes: Batch, ana: User, bo: User) -> None:
    assert len(points_of(two_notes)) == 2
    claim_and_submit(ana, lambda form: rejection_of(form, "Nobody says so."))
    claim_and_submit(bo, lambda form: rejection_of(form, "No."), lambda form: rejection_of(form, "No."))
    outcomes_services.apply_outcomes()
    assert len(points_of(two_notes)) == 2, "the next version has not been started"
    batches_services.work_on_batch(two_notes.pk)
    assert Draft.objects.exclude(data={}).count() == 3
    assert len(points_of(two_notes)) == 2
    Sample.objects.filter(pk=Sample.objects.order_by("pk")[0].pk).update(status=Sample.Status.DISCARDED)
    assert len(points_of(two_notes)) == 1


@pytest.mark.parametrize("gate", ["stopped", "discarded"])
def test_the_analysis_leaves_out_drafts_that_a_check_stopped(two_notes: Batch, gate: str) -> None:
    draft = two_notes.drafts.order_by("pk")[0]
    SampleVersion.objects.filter(draft=draft).update(
        draft=two_notes.drafts.create(record_id=draft.record_id, parent=draft)
    )
    two_notes.drafts.filter(parent=draft).update(parent=None, sample=Sample.objects.order_by("pk")[0])
    two_notes.drafts.filter(pk=draft.pk).update(gate=gate, status=Work.Status.DROPPED)
    assert len(points_of(two_notes)) == 1


def test_a_recipe_without_analysis_has_no_analysis_page(
    tea_batch: Batch, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "RECIPE", replace(recipe.RECIPE, analysis=None, lineage=None))
    url = reverse("generation:batch-analysis", args=[tea_batch.pk])
    assert url not in text_of(admin.get(reverse("generation:batch", args=[tea_batch.pk])))
    assert admin.get(url).status_code == 404
    assert admin.get(f"/api/v1/batches/{tea_batch.pk}/analysis/").status_code == 404
    assert admin.get(reverse("generation:sample", args=[Sample.objects.get().pk])).status_code == 200


# ------------------------------------------------------------------------------- without physicians


@population
@toy_benchmarks()
def partly_reviewed(models: str) -> Batch:
    """Three samples: two not sampled for review, and one that two physicians approved."""
    batch = finished_batch(source_of("tea.", "coffee.", "milk"), models)
    outcomes_services.apply_outcomes()
    assert approve_everything(accounts_of("ana", "bo")) == 3
    outcomes_services.apply_outcomes()
    return batch


def test_physicians_never_see_a_case_that_is_not_sampled_for_review(models: str, ana: User) -> None:
    finished_batch(source_of("tea.", "coffee."), models)
    assert set(Case.objects.values_list("state", "ground")) == {(State.APPROVED, Ground.UNREVIEWED)}
    assert claims.claim_next(ana) is None
    assert set(Sample.objects.values_list("status", flat=True)) == {Sample.Status.APPROVED}
    version = SampleVersion.objects.first()
    assert version is not None
    rubric = version.rubrics.get()
    assert (rubric.approved, rubric.criterion) == ("", "Says what it tastes of."), "nobody approved a wording"


def test_unreviewed_samples_are_counted_separately(partly_reviewed: Batch) -> None:
    assert (funnel().counts[State.APPROVED], funnel().unreviewed) == (1, 2)
    [row] = attempts.attempts("brew", ["generator"])
    assert (row.decided, row.approved) == (1, 1)
    listed: list[Any] = list(samples_queries.samples(batch=partly_reviewed))
    assert {sample.unreviewed for sample in listed} == {True, False}
    by_status = {status: samples_queries.samples(status=status).count() for status in ("approved", "not-sampled")}
    assert by_status == {"approved": 1, "not-sampled": 2}
    assert {status: cases(state=status).count() for status in by_status} == by_status


def test_a_release_says_which_samples_were_not_reviewed_and_how_they_were_made(
    partly_reviewed: Batch, tmp_path: Path
) -> None:
    release = releases_services.freeze_release("brews", benchmark="brew", composition=WITH_UNREVIEWED)
    assert release.grounds == {"consensus": 1, "unreviewed": 2}
    assert (release.reviewed, release.unreviewed) == (1, 2)
    assert release.provenance == {"similarity": {"embeddings": 3}, "review": {"not sampled": 2, "sampled": 1}}
    rows = {row["content"]["text"]: row for row in exported_samples(release)}
    assert rows["tea."]["review"] == {"status": "not-sampled", "ground": "unreviewed", "physicians": 0}
    assert rows["milk"]["review"] == {"ground": "consensus", "physicians": 2}
    assert rows["tea."]["made"] == {"similarity": "embeddings", "review": "not sampled"}
    assert rows["tea."]["rubrics"][0]["criterion"] == "Says what it tastes of."
    card = data_card.data_card(release)
    assert "| review | not sampled | 2 |" in card
    assert "| not sampled for review | unreviewed | 2 |" in card
    assert "| approved | consensus | 1 |" in card
    assert "The other 2 were **not sampled for review**" in card
    assert "each approved by physicians" not in card
    assert "1 sample was approved by a primary reviewer and an independent secondary reviewer." in card
    assert "two further physicians" not in card
    assert "one physician" not in card
    for format_name in ("jsonl", "csv", "parquet"):
        export.Export(release, format_name).write(tmp_path / format_name)
        manifest = json.loads((tmp_path / format_name / "manifest.json").read_text())
        assert manifest["made"]["review"] == {"not sampled": 2, "sampled": 1}
        assert manifest["grounds"] == {"consensus": 1, "unreviewed": 2}
    exported = [json.loads(line) for line in (tmp_path / "jsonl" / "samples.jsonl").read_text().splitlines()]
    assert [row["made"]["review"] for row in exported] == ["not sampled", "not sampled", "sampled"]


def test_the_data_card_says_how_many_physicians_decided(partly_reviewed: Batch) -> None:
    release = releases_services.freeze_release("brews", benchmark="brew", composition=WITH_UNREVIEWED)
    release.grounds = {"primary-alone": 2, "unreviewed": 1}  # as under a policy with one reviewer
    card = data_card.data_card(release)
    assert "2 samples were reviewed by one physician, who decided alone, without independent verification." in card
    assert "secondary reviewer" not in card
    assert release.about["senior_decided"] == 0
    assert "senior" not in card
    release.grounds = {"adjudicated": 2, "consensus": 1}
    release.about["senior_decided"] = 2
    card = data_card.data_card(release)
    assert "In 2 of the adjudicated samples the policy let only senior physicians decide." in card
    assert "1 sample was approved by a primary reviewer and an independent secondary reviewer." in card
    assert "2 samples were decided by two further physicians" in card


def test_the_page_before_freezing_counts_the_unreviewed_samples(partly_reviewed: Batch, admin: Client) -> None:
    assert releases_queries.approved_counts() == {"brew": (3, 2)}
    page = text_of(admin.get(reverse("generation:release-new")))
    assert "3 samples ready to freeze, 2 of them not sampled for review" in page
    form = {"name": "brews", "benchmark": "brew", "with_unreviewed": "on"}
    preview = admin.post(reverse("generation:release-new"), form)
    assert not Release.objects.exists(), "the first step freezes nothing"
    assert (preview.context["preview"].approved, preview.context["preview"].not_sampled) == (1, 2)
    assert "Freeze brews v1?" in text_of(preview)
    changed = admin.post(reverse("generation:release-new"), {**form, "seen": "3+0"})
    assert "The samples have changed since the preview." in text_of(changed)
    assert not Release.objects.exists(), "the selection differs from the previewed one"
    assert admin.post(reverse("generation:release-new"), {**form, "seen": "1+2"}).status_code == 302
    releases_services.run_freeze(Freeze.objects.get().pk)
    assert Release.objects.get().statuses == {"approved": 1, "not-sampled": 2}


def test_an_unreviewed_sample_is_never_shown_as_approved(partly_reviewed: Batch, admin: Client) -> None:
    sample = samples_queries.samples(status="not-sampled").first()
    assert sample is not None
    case = SampleVersion.objects.get(sample=sample).case_id
    listed = text_of(admin.get(reverse("generation:samples")))
    assert (listed.count("badge--not-sampled"), listed.count("badge--approved")) == (2, 1)
    cases_page = text_of(admin.get(reverse("review:cases")))
    assert (cases_page.count("badge--not-sampled"), cases_page.count("badge--approved")) == (2, 1)
    for address in (
        reverse("generation:sample", args=[sample.pk]),
        reverse("review:history", args=[case]),
        reverse("generation:record", args=[sample.record.source.name, sample.record_id]),
    ):
        page = text_of(admin.get(address))
        assert "badge--not-sampled" in page
        assert "badge--approved" not in page


def test_a_release_names_the_joined_sources(models: str, admin: Client) -> None:
    def add_articles(name: str, number: int) -> Source:
        articles = Source.objects.create(
            name=name,
            format="pubmedqa",
            label=name.title(),
            licence="MIT",
            citation="Jin 2019",
            created_at=timezone.now(),
        )
        content = {"kind": "article", "question": "?"}
        SourceRecord.objects.create(
            source=articles, external_id=name, title="", content=content, match=f"digest-{number}"
        )
        return articles

    notes = source_of("tea.", "coffee.", "milk.")
    for number, record in enumerate(notes.records.order_by("pk")[:2]):
        Reference.objects.create(record=record, format="pubmedqa", digest=f"digest-{number}")
    add_articles("articles", 0)
    finished_batch(notes, models)
    outcomes_services.apply_outcomes()
    add_articles("too-late", 1)
    release = releases_services.freeze_release("brews", benchmark="brew", composition=WITH_UNREVIEWED)
    rows = [(source["name"], source["samples"], source["joined"]) for source in release.sources]
    assert rows == [("notes", 3, False), ("articles", 1, True)], (
        "a source imported after the samples had no part in them"
    )
    card = data_card.data_card(release)
    assert "### Articles (`articles`, joined with 1 sample)" in card
    assert "Jin 2019" in card
    assert "linked with the records" in text_of(admin.get(reverse("generation:release", args=["brews", 1])))
    release_json = admin.get("/api/v1/releases/brews/1/").json()
    assert [source["joined"] for source in release_json["sources"]] == [False, True]


def test_the_data_card_of_an_unreviewed_release_says_so(models: str) -> None:
    finished_batch(source_of("tea."), models)
    outcomes_services.apply_outcomes()
    card = data_card.data_card(releases_services.freeze_release("brews", benchmark="brew", composition=WITH_UNREVIEWED))
    assert "none of them reviewed by physicians" in card
    assert "passed a primary reviewer" not in card


def test_an_older_release_keeps_its_bytes(partly_reviewed: Batch, tmp_path: Path) -> None:
    """Releases from before the column `made` do not gain it, so their checksums still hold."""
    import hashlib

    from generation.models import ReleasedSample

    release = releases_services.freeze_release("brews", benchmark="brew", composition=WITH_UNREVIEWED)
    old_rows = [{k: v for k, v in row.exported.items() if k != "made"} for row in ReleasedSample.objects.order_by("pk")]
    release.pk, release.version, release.grounds, release.provenance = None, 2, {}, {}
    release.canary, release.about = "", {}
    release.save()
    for position, exported in enumerate(old_rows):
        ReleasedSample.objects.create(
            release=release,
            position=position,
            version=SampleVersion.objects.all()[position],
            key=f"k{position}",
            task="t",
            exported=exported,
        )
    export.Export(release, "jsonl").write(tmp_path)
    text = (tmp_path / "samples.jsonl").read_bytes()
    assert b'"made"' not in text
    assert hashlib.sha256(text).hexdigest()
    assert set(json.loads((tmp_path / "manifest.json").read_text())) == {"files"}
    for format_name in ("csv", "parquet"):
        export.Export(release, format_name).write(tmp_path / format_name)


def test_pages_never_call_an_unreviewed_sample_reviewed(partly_reviewed: Batch, admin: Client) -> None:
    notice = "not sampled for review"
    release: Release = releases_services.freeze_release("brews", benchmark="brew", composition=WITH_UNREVIEWED)
    by_text = {version.content["text"]: version for version in SampleVersion.objects.select_related("sample", "case")}
    unreviewed, reviewed = by_text["tea."], by_text["milk"]
    assert notice in text_of(admin.get(reverse("generation:sample", args=[unreviewed.sample_id])))
    assert notice not in text_of(admin.get(reverse("generation:sample", args=[reviewed.sample_id])))
    page = text_of(admin.get(reverse("generation:release", args=["brews", 1])))
    assert page.count("S Sweet") >= 1, "a taxonomy of one level has a composition, too"
    assert "2 of 3 samples were not sampled for review: no physician has reviewed them" in page
    assert "not sampled for review: 2" in page
    assert "not sampled" in page
    samples_url = reverse("generation:release-samples", args=["brews", 1])
    assert notice in text_of(admin.get(samples_url)), "the first sample is selected"
    assert "Rubrics, as generated" in text_of(admin.get(samples_url))
    last = release.samples.order_by("-position").first()
    assert last is not None
    assert "Rubrics, as approved" in text_of(admin.get(f"{samples_url}?selected={last.pk}"))
    case = text_of(admin.get(reverse("review:history", args=[unreviewed.case_id])))
    assert "badge--not-sampled" in case
    assert "This case was not sampled for review" in case
    assert "Use as calibration case" not in case
    overview = text_of(admin.get(reverse("review:overview")))
    assert "Not sampled for review: 2." in overview


def test_the_api_marks_unreviewed_samples(partly_reviewed: Batch, admin: Client) -> None:
    releases_services.freeze_release("brews", benchmark="brew", composition=WITH_UNREVIEWED)
    release_json = admin.get("/api/v1/releases/brews/1/").json()
    assert (release_json["unreviewed"], release_json["grounds"]) == (2, {"consensus": 1, "unreviewed": 2})
    assert release_json["provenance"]["similarity"] == {"embeddings": 3}
    listed = admin.get("/api/v1/samples/").json()["results"]
    assert sorted(row["unreviewed"] for row in listed) == [False, True, True]
    assert sorted(row["status"] for row in listed) == ["approved", "not-sampled", "not-sampled"]


def test_a_sampled_case_is_reviewed_as_usual(models: str, ana: User, bo: User) -> None:
    finished_batch(source_of("milk"), models)
    claim_and_submit(ana, approval_of)
    claim_and_submit(bo, approval_of, approval_of)
    outcomes_services.apply_outcomes()
    assert Case.objects.get().ground == Ground.CONSENSUS
