"""Estimates of a launch: the expected numbers and the worst case."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation.batches import estimate as batches_estimate
from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches.launch import BatchSettings
from generation.jobs import estimate as jobs_estimate
from generation.jobs.estimate import Estimate, EstimateLine, Pace, UsualCalls, estimate_line
from generation.models import Call, Draft, Endpoint
from review.models import ActiveInterval, Case, User
from review.quality.activity import ASSUMED_MINUTES, MIN_MEASURED
from tests.engine import conversations_file, endpoint, import_file, launch_batch, makers, run_batch, simulator
from tests.review.factories import account, open_case
from tests.review.pages import text_of

pytestmark = pytest.mark.django_db


Page = Any


@pytest.fixture
def models() -> Iterator[str]:
    with simulator() as url:
        yield url


def _line(**fields: object) -> EstimateLine:
    values = {
        "role": "generator", "endpoint": "a", "prompt": "p", "requests": 10, "cached": None, "calls": 10, "tokens_in": 0,
        "tokens_out": 0, "cost": Decimal(1), "most_calls": 40, "most_cost": Decimal(4), "measured": 0, "latency": 2.0,
    }  # fmt: skip
    return EstimateLine(**{**values, **fields})  # type: ignore[arg-type]


@pytest.mark.plain
def test_the_estimated_time_is_that_of_the_busiest_endpoint_or_of_one_row() -> None:
    lines = (_line(), _line(role="critic", endpoint="b", calls=1, most_calls=1))
    fast = Estimate(lines, rows=10, paces={"a": Pace(10, None), "b": Pace(1, None)})
    assert (fast.seconds, fast.most_seconds) == (2.2, 8.2), "the questions about one row follow one another"
    slow = Estimate(lines, rows=10, paces={"a": Pace(1, None), "b": Pace(1, None)})
    assert (slow.seconds, slow.most_seconds) == (20.0, 80.0)
    limited = Estimate(lines, rows=10, paces={"a": Pace(10, 5), "b": Pace(1, None)})
    assert limited.seconds == 120.0
    assert Estimate((_line(batched=True),), rows=1).seconds is None


def test_questions_of_a_loop_are_not_multiplied_by_its_turns(tmp_path: Path, models: str) -> None:
    """A row may ask a prompt six times; that does not mean six attempts at each question."""
    target = endpoint(models, price_in="1", price_out="1")
    batch = run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 2)), target)
    first = Call.objects.filter(job=batch).earliest("pk")
    lines = Call.objects.filter(prompt=first.prompt)
    for subject in set(lines.values_list("subject", flat=True)):
        row = lines.filter(subject=subject).earliest("pk")
        for _again in range(5):
            row.pk, row.attempt_id = None, None
            row.save()
    whole = estimate_line("generator", target, first.prompt, 60, repeats=6)
    assert (whole.calls, whole.most_calls) == (60, 60)
    usual = estimate_line("generator", target, first.prompt, 60, repeats=6, usual=UsualCalls(1.5, 100))
    assert (usual.calls, usual.most_calls, usual.usual) == (15, 60, 100)
    assert usual.cost < usual.most_cost


def test_the_expected_calls_are_those_of_drafts_with_the_same_settings(tmp_path: Path, models: str) -> None:
    target = endpoint(models, price_in="1", price_out="1")
    first = import_file(conversations_file(tmp_path / "own.jsonl", 3))
    batch = run_batch(first, target)
    assert batch.status == batch.Status.FINISHED
    more = import_file(conversations_file(tmp_path / "more.jsonl", 6), "more")
    batch_settings = BatchSettings(benchmark="mhb", source=more, roles={"generator": target}, checks=())
    estimate = batches_estimate.estimate_batch(batch_settings)
    assert {line.usual for line in estimate.lines} == {3}
    assert estimate.calls == batch.calls * 2
    assert estimate.most_calls >= estimate.calls
    assert estimate.most_cost >= estimate.cost > 0
    assert estimate.rows == 6
    for changed in ({"prompts": "v1"}, {"checks": None, "roles": makers(models)}):
        other = batches_estimate.estimate_batch(batch_settings.model_copy(update=changed))
        assert {line.usual for line in other.lines} == {0}, "no such drafts were made yet"
    other_model = batches_estimate.estimate_batch(
        batch_settings.model_copy(update={"roles": {"generator": endpoint(models, "sim-careful")}})
    )
    [line] = other_model.lines
    assert (line.measured, line.alike) == (0, 3), (
        "replies of other models to this prompt are a better guess than a constant"
    )
    assert line.tokens_in == 2 * batch.tokens_in
    assert line.tokens_in != line.calls * jobs_estimate.TOKENS_IN


def test_the_page_shows_expected_and_worst_case_with_the_currency(
    client: Client, adela: User, tmp_path: Path, models: str, settings: object
) -> None:
    settings.MHB_CURRENCY = "EUR"  # type: ignore[attr-defined]
    client.force_login(adela)
    endpoint(models, price_in="1", price_out="2")
    import_file(conversations_file(tmp_path / "own.jsonl", 2))
    sent = {"benchmark": "mhb", "source": "own", "role-generator": "sim-generator", "one_model": "on"}
    sent["role-examiner"] = "sim-generator"
    page = text_of(client.post(reverse("generation:batch-new"), sent))
    for text in ("Expected", "Worst case", "EUR", "Limits", 'aria-current="step"'):
        assert text in page
    roles = {"generator": "sim-generator", "examiner": "sim-generator"}
    body = {"benchmark": "mhb", "source": "own", "roles": roles, "one_model": True}
    api = client.post(reverse("api:batch-estimate"), body, content_type="application/json").json()
    assert api["currency"] == "EUR"
    assert Decimal(api["most_cost"]) >= Decimal(api["cost"])
    assert api["seconds"] > 0


def test_going_back_in_the_launch_form_keeps_the_choices(
    client: Client, adela: User, tmp_path: Path, models: str
) -> None:
    client.force_login(adela)
    endpoint(models)
    import_file(conversations_file(tmp_path / "own.jsonl", 2))
    url = reverse("generation:batch-new")
    sent = {"benchmark": "mhb", "source": "own", "role-generator": "sim-generator", "limit": "1", "one_model": "on"}
    sent["role-examiner"] = "sim-generator"
    confirmation: Page = client.post(url, sent)
    back: Page = client.post(url, {**dict(confirmation.context["carried"]), "back": "1", "budget_calls": "-3"})
    assert back.status_code == 200
    assert '<option value="sim-generator" selected>' in text_of(back)
    assert 'name="limit" value="1"' in text_of(back)


def test_the_last_settings_of_the_same_person_are_filled_in(
    client: Client, adela: User, tmp_path: Path, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(adela)
    target = endpoint(models, name="mine")
    endpoint(models, name="other")
    source = import_file(conversations_file(tmp_path / "own.jsonl", 3))
    url = f"{reverse('generation:batch-new')}?benchmark=mhb&source=own"
    assert "are filled in" not in text_of(client.get(url))
    batch = launch_batch(source, target, 1)
    assert "are filled in" not in text_of(client.get(url)), "the batch of another person"
    batch.created_by = adela
    batch.save()
    assert launch.last_settings(adela, "mhb")[0] == batch
    page = text_of(client.get(url))
    assert f"The settings of batch {batch.pk} are filled in." in page
    assert '<option value="mine" selected>' in page
    assert '<option value="mine" selected>' not in text_of(client.get(url + "&defaults=1"))
    monkeypatch.setattr(batches_queries, "unused_record_counts", lambda *_arguments: {})
    used_up: Page = client.get(f"{reverse('generation:batch-new')}?source=own")
    assert used_up.context["benchmark"] == "mhb", "the source's benchmark, although no records are left"
    assert "data-step-done>" in text_of(used_up), "two records are left"


def test_a_launch_of_discarded_records_alone_is_offered(
    client: Client, adela: User, tmp_path: Path, models: str
) -> None:
    client.force_login(adela)
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    batch = launch_batch(source, endpoint(models))
    url = f"{reverse('generation:batch-new')}?benchmark=mhb&source=own"
    page = text_of(client.get(url))
    assert "data-step-done disabled>" in page
    assert "choose “Discarded records”" not in page
    batch.drafts.update(status=Draft.Status.DROPPED)
    page = text_of(client.get(url))
    assert "data-step-done>" in page
    assert "choose “Discarded records”" in page


def test_the_launch_page_begins_with_a_source_that_has_records_left(
    client: Client, adela: User, tmp_path: Path, models: str
) -> None:
    client.force_login(adela)
    url = f"{reverse('generation:batch-new')}?benchmark=mhb"
    for name in ("older", "newer"):
        source = import_file(conversations_file(tmp_path / f"{name}.jsonl", 2), name)
    chosen: Page = client.get(url)
    assert chosen.context["source"].name == "newer"
    launch_batch(source, endpoint(models))
    chosen = client.get(url)
    assert (chosen.context["source"].name, chosen.context["left"]) == ("older", 2)


def test_a_prompt_without_calls_gets_assumed_numbers(models: str) -> None:
    line = estimate_line("generator", endpoint(models), "never@1", 7)
    assert (line.calls, line.most_calls, line.measured, line.latency) == (7, 7, 0, jobs_estimate.SECONDS)
    assert Endpoint.objects.count() == 1


def test_the_hours_of_physicians_are_estimated_from_decided_cases(tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 4))
    target = endpoint("http://localhost:9/v1")
    settings = BatchSettings(benchmark="mhb", source=source, roles={"generator": target}, checks=())
    assert batches_estimate.estimate_batch(settings).review_hours == 4 * ASSUMED_MINUTES / 60
    physician = account("ana")
    for number in range(MIN_MEASURED):
        case = open_case(number)
        began = timezone.now()
        ActiveInterval.objects.create(
            assignment=case.assignments.get(),
            physician=physician,
            began_at=began,
            ended_at=began + timedelta(minutes=6),
        )
        assert batches_estimate.estimate_batch(settings).review_hours == 1.0, "the open cases say nothing yet"
        Case.objects.filter(pk=case.pk).update(state="approved", ground="consensus", closed_at=began, benchmark="mhb")
    assert batches_estimate.estimate_batch(settings).review_hours == pytest.approx(4 * 6 / 60)
