"""MedHal in the reader's language: why drafts were dropped, and the names of tasks and sources in
reports."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.labels import value_name
from evaluation.playground.services import PlaygroundSettings, is_edited
from generation.batches import launch as batches_launch
from generation.models import Draft
from tests.benchmarks.medhal.helpers import MCQ, STATEMENT
from tests.benchmarks.medhal.statements import create_release, statement
from tests.benchmarks.medhal.test_batch import run_batch, settings, source_of
from tests.engine import endpoint

CHINESE = {"accept-language": "zh-hans"}


@pytest.mark.django_db
def test_the_reason_of_a_dropped_draft_is_shown_in_the_readers_language(admin_client: Client) -> None:
    source = source_of(
        {**MCQ, "question": "All lower it except: Name the exception."}, 1, question="All lower it except:"
    )
    # Nothing listens at this address: a draft that is dropped at once asks no model.
    batch = run_batch(settings(source, "http://127.0.0.1:9/v1", changes={"qa_filters": "stricter"}))
    draft = Draft.objects.get(batch=batch)
    assert (draft.status, draft.detail) == ("dropped", "the question asks for the exception")  # stored in English
    for address in (reverse("generation:batch", args=[batch.pk]), f"/api/v1/batches/{batch.pk}/drafts/"):
        english = admin_client.get(address)
        assert "the question asks for the exception" in english.content.decode(), address
        chinese = admin_client.get(address, headers=CHINESE).content.decode()
        assert "the question asks for the exception" not in chinese
        assert "题目询问的是例外" in chinese, address


@pytest.mark.django_db
@pytest.mark.parametrize(("row", "models"), [(STATEMENT, ""), (MCQ, "http://127.0.0.1:9/v1")])
def test_the_page_lists_models_only_if_the_batch_asks_any(
    admin_client: Client, row: Mapping[str, Any], models: str
) -> None:
    batch = batches_launch.launch_batch(settings(source_of(row, 1), models))
    page = admin_client.get(reverse("generation:batch", args=[batch.pk])).content.decode()
    assert ('id="models-asked"' in page) == bool(models)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("value", "label", "name"),
    [
        ("medqa", "MedQA", "MedQA"),
        ("acn", "Augmented clinical notes", "Augmented clinical notes"),
        ("medium", "1,000 to 9,999 characters", "1,000 to 9,999 characters"),
        ("A1", "Non-existent entity", "A1 Non-existent entity"),
        ("Critical", "critical", "critical"),
    ],
)
def test_a_short_code_is_shown_before_its_label_and_other_values_are_not(value: str, label: str, name: str) -> None:
    assert value_name(value, label) == name


@pytest.mark.django_db
def test_the_playground_asks_each_model_in_its_own_format(admin_client: Client) -> None:
    release = create_release([statement(1, context="Forty adults took it.")])
    models = ["halloumi-8b", "other", "prometheus-2"]
    for model in models:
        endpoint("http://127.0.0.1:9/v1", model)
    what = f"model:{release.reference}:qa-own"
    context = admin_client.get(reverse("evaluation:playground"), {"what": what, "endpoints": models}).context
    bodies = dict(context["bodies"])
    assert "<|context|>" in bodies["halloumi-8b"]
    assert "is this statement factual?" in bodies["other"]
    assert "[RESULT]" in bodies["prometheus-2"]
    asked, turns = PlaygroundSettings(what=what), [text for _role, text, _images in context["turns"]]
    assert not is_edited(asked, turns, models)
    assert is_edited(asked, [f"{turns[0]} Be brief.", *turns[1:]], models)
