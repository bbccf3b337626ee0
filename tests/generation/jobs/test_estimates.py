"""What a launch is expected to come to, and what at most."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import estimate as batches_estimate
from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches.launch import BatchSettings
from generation.jobs import estimate as jobs_estimate
from generation.jobs.estimate import Estimate, EstimateLine, Pace, UsualCalls, estimate_line
from generation.models import Call, Endpoint
from review.models import User
from tests.engine import conversations_file, endpoint, generated, imported, launched, simulated

pytestmark = pytest.mark.django_db


Page = Any


def text_of(page: Page) -> str:
    return str(page.content.decode())


@pytest.fixture
def models() -> Iterator[str]:
    with simulated() as url:
        yield url


def _line(**given: object) -> EstimateLine:
    values = {
        "role": "generator", "endpoint": "a", "prompt": "p", "requests": 10, "cached": None, "calls": 10, "tokens_in": 0,
        "tokens_out": 0, "cost": Decimal(1), "most_calls": 40, "most_cost": Decimal(4), "measured": 0, "latency": 2.0,
    }  # fmt: skip
    return EstimateLine(**{**values, **given})  # type: ignore[arg-type]


@pytest.mark.plain
def test_time_is_that_of_the_busiest_endpoint_or_of_one_row() -> None:
    lines = (_line(), _line(role="critic", endpoint="b", calls=1, most_calls=1))
    fast = Estimate(lines, rows=10, paces={"a": Pace(10, None), "b": Pace(1, None)})
    assert (fast.seconds, fast.most_seconds) == (2.2, 8.2), "the questions about one row follow one another"
    slow = Estimate(lines, rows=10, paces={"a": Pace(1, None), "b": Pace(1, None)})
    assert (slow.seconds, slow.most_seconds) == (20.0, 80.0)
    limited = Estimate(lines, rows=10, paces={"a": Pace(10, 5), "b": Pace(1, None)})
    assert limited.seconds == 120.0
    assert Estimate((_line(batched=True),), rows=1).seconds is None


def test_questions_of_a_loop_are_not_multiplied_by_its_turns(tmp_path: Path, models: str) -> None:
    """A row that asks a prompt six times has no six attempts at each question."""
    of = endpoint(models, price_in="1", price_out="1")
    batch = generated(imported(conversations_file(tmp_path / "own.jsonl", 2)), of)
    first = Call.objects.filter(job=batch).earliest("pk")
    lines = Call.objects.filter(prompt=first.prompt)
    for subject in set(lines.values_list("subject", flat=True)):
        row = lines.filter(subject=subject).earliest("pk")
        for _again in range(5):
            row.pk, row.attempt_id = None, None
            row.save()
    whole = estimate_line("generator", of, first.prompt, 60, repeats=6)
    assert (whole.calls, whole.most_calls) == (60, 60)
    usual = estimate_line("generator", of, first.prompt, 60, repeats=6, usual=UsualCalls(1.5, 100))
    assert (usual.calls, usual.most_calls, usual.usual) == (15, 60, 100)
    assert usual.cost < usual.most_cost


def test_the_expected_number_is_what_drafts_with_these_settings_asked(tmp_path: Path, models: str) -> None:
    of = endpoint(models, price_in="1", price_out="1")
    first = imported(conversations_file(tmp_path / "own.jsonl", 3))
    batch = generated(first, of)
    assert batch.status == batch.Status.FINISHED
    more = imported(conversations_file(tmp_path / "more.jsonl", 6), "more")
    asked = BatchSettings(benchmark="mhb", source=more, roles={"generator": of}, checks=())
    found = batches_estimate.estimate_batch(asked)
    assert {line.usual for line in found.lines} == {3}
    assert found.calls == batch.calls * 2
    assert found.most_calls >= found.calls
    assert found.most_cost >= found.cost > 0
    assert found.rows == 6
    for changed in ({"prompts": "v1"}, {"checks": None}):
        other = batches_estimate.estimate_batch(replace(asked, **changed))
        assert {line.usual for line in other.lines} == {0}, "nothing is known of such drafts"
    stranger = batches_estimate.estimate_batch(replace(asked, roles={"generator": endpoint(models, "sim-careful")}))
    [line] = stranger.lines
    assert (line.measured, line.alike) == (0, 3), "what other models said to this prompt is nearer than a guess"
    assert line.tokens_in == 2 * batch.tokens_in
    assert line.tokens_in != line.calls * jobs_estimate.TOKENS_IN


def test_page_shows_expected_and_worst_case_with_the_currency(
    client: Client, adela: User, tmp_path: Path, models: str, settings: object
) -> None:
    settings.MHB_CURRENCY = "EUR"  # type: ignore[attr-defined]
    client.force_login(adela)
    endpoint(models, price_in="1", price_out="2")
    imported(conversations_file(tmp_path / "own.jsonl", 2))
    sent = {"benchmark": "mhb", "source": "own", "role-generator": "sim-generator"}
    page = text_of(client.post(reverse("generation:batch-new"), sent))
    for told in ("Expected", "Worst case", "EUR", "Limits", 'aria-current="step"'):
        assert told in page
    body = {"benchmark": "mhb", "source": "own", "roles": {"generator": "sim-generator"}}
    api = client.post(reverse("api:batch-estimate"), body, content_type="application/json").json()
    assert api["currency"] == "EUR"
    assert Decimal(api["most_cost"]) >= Decimal(api["cost"])
    assert api["seconds"] > 0


def test_a_launch_form_goes_back_and_keeps_what_was_chosen(
    client: Client, adela: User, tmp_path: Path, models: str
) -> None:
    client.force_login(adela)
    endpoint(models)
    imported(conversations_file(tmp_path / "own.jsonl", 2))
    there = reverse("generation:batch-new")
    sent = {"benchmark": "mhb", "source": "own", "role-generator": "sim-generator", "limit": "1"}
    asked: Page = client.post(there, sent)
    back: Page = client.post(there, {**dict(asked.context["carried"]), "back": "1", "budget_calls": "-3"})
    assert back.status_code == 200
    assert '<option value="sim-generator" selected>' in text_of(back)
    assert 'name="limit" value="1"' in text_of(back)


def test_the_last_settings_of_the_same_person_are_filled_in(
    client: Client, adela: User, tmp_path: Path, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(adela)
    of = endpoint(models, name="mine")
    endpoint(models, name="other")
    source = imported(conversations_file(tmp_path / "own.jsonl", 3))
    there = f"{reverse('generation:batch-new')}?benchmark=mhb&source=own"
    assert "are filled in" not in text_of(client.get(there))
    batch = launched(source, of, 1)
    assert "are filled in" not in text_of(client.get(there)), "somebody else's"
    batch.created_by = adela
    batch.save()
    assert launch.last_settings(adela, "mhb")[0] == batch
    page = text_of(client.get(there))
    assert f"The settings of batch {batch.pk} are filled in." in page
    assert '<option value="mine" selected>' in page
    assert '<option value="mine" selected>' not in text_of(client.get(there + "&defaults=1"))
    monkeypatch.setattr(batches_queries, "unused_record_counts", lambda *_about: {})
    used_up: Page = client.get(f"{reverse('generation:batch-new')}?source=own")
    assert used_up.context["benchmark"] == "mhb", "the source's own, though nothing is left"


def test_what_was_never_measured_is_assumed(models: str) -> None:
    line = estimate_line("generator", endpoint(models), "never@1", 7)
    assert (line.calls, line.most_calls, line.measured, line.latency) == (7, 7, 0, jobs_estimate.SECONDS)
    assert Endpoint.objects.count() == 1
