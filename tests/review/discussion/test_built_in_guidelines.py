"""The built-in guidelines of a benchmark's folder: one text per stage and language."""

from itertools import product
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation

from review.common import benchmarks
from review.discussion import guidelines
from review.models import User
from review.rules.state_machine import State
from tests.review.factories import open_case


@pytest.mark.plain
@pytest.mark.parametrize(("benchmark", "stage"), list(product(("mhb", "medhallu"), guidelines.STAGES)))
def test_each_benchmark_has_its_own_text_with_examples_in_each_language(benchmark: str, stage: State) -> None:
    texts = set()
    for code, _name in settings.LANGUAGES:
        with translation.override(code):
            texts.add(guidelines.built_in(benchmark, stage))
    assert len(texts) == len(settings.LANGUAGES)
    assert all("\n# " in text and "|---|" in text for text in texts)  # headings, and examples in a table


@pytest.mark.plain
def test_the_guidelines_of_medhallu_mention_neither_naturalness_nor_rubrics() -> None:
    text = guidelines.built_in("medhallu", State.PRIMARY)
    assert "natural" not in text.casefold()
    assert "There are no rubrics here" in text


@pytest.mark.plain
@pytest.mark.parametrize("name", ["", "..", "mhb/..", "invented"])
def test_an_unknown_benchmark_has_no_text(name: str) -> None:
    assert benchmarks.text(name, "guidelines", State.PRIMARY) == ""
    assert benchmarks.module(name, "review") is None


def test_pages_and_api_show_the_text_of_the_benchmark(client: Client, ana: User, adela: User) -> None:
    open_case(benchmark="medhallu")
    client.force_login(ana)
    page = client.get(reverse("review:guidelines")).content.decode()
    assert "Is it plausible?" in page
    assert "First look." not in page
    rows: list[dict[str, Any]] = client.get("/api/v1/guidelines/", headers={"Accept-Language": "zh-hans"}).json()
    assert [(row["stage"], row["version"]) for row in rows] == [(stage.value, 0) for stage in guidelines.STAGES]
    assert "幻觉答案" in rows[0]["text"]
    client.force_login(adela)
    edit = client.get(reverse("review:guideline-edit", args=["medhallu", "primary"])).content.decode()
    assert "There are no rubrics here" in edit  # admins start from the built-in text


def test_the_guidelines_can_be_read_before_the_first_case(client: Client, ana: User) -> None:
    client.force_login(ana)
    page = client.get(reverse("review:guidelines")).content.decode()
    assert "Is it plausible?" in page
    assert "First look." in page
