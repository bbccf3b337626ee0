"""The overview's notices of jobs that need a person."""

import html
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation.jobs import life_cycle
from generation.llm.errors import AuthFailed
from generation.models import Job, WorkerBeat
from review.models import User
from tests.engine import conversations_file, endpoint, import_file, launch_batch

pytestmark = pytest.mark.django_db
NOWHERE = "http://localhost:9/v1"


def attention_of(client: Client, admin: User) -> str:
    """The part of the overview that says what needs attention."""
    client.force_login(admin)
    page = html.unescape(client.get(reverse("review:overview")).content.decode())
    return " ".join(page.partition('id="attention"')[2].partition("</section>")[0].split())


@pytest.mark.parametrize(
    ("beat", "needs"),
    [
        (None, True),
        ({"seen_at": timezone.now() - timedelta(hours=1)}, True),
        ({"name": WorkerBeat.SWEEPER}, True),
        ({"runs_lanes": False}, True),
        ({}, False),
    ],
)
def test_the_overview_says_when_no_worker_runs(
    client: Client, adela: User, beat: dict[str, Any] | None, needs: bool
) -> None:
    if beat is not None:
        WorkerBeat.objects.create(**{"name": "one:1", "seen_at": timezone.now(), **beat})
    attention = attention_of(client, adela)
    assert ("No worker is running" in attention) == needs
    assert ("Nothing needs your attention right now." in attention) != needs


@pytest.mark.parametrize(
    ("cost", "calls", "notice"),
    [
        ("0.01", 1_900, "budget nearly spent: 1,900 of 2,000 calls"),
        ("6.65", 100, "budget nearly spent: 6.65 of 7.00"),
        ("6.65", 1_900, "budget nearly spent: 6.65 of 7.00"),
        ("0.01", 100, ""),
    ],
)
def test_the_overview_names_the_budget_that_is_nearly_spent(
    client: Client, adela: User, tmp_path: Path, cost: str, calls: int, notice: str
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    batch = launch_batch(source, endpoint(NOWHERE), budget_money=Decimal(7), budget_calls=2_000)
    Job.objects.filter(pk=batch.pk).update(cost=cost, calls=calls)
    WorkerBeat.objects.create(name="one:1", seen_at=timezone.now())
    attention = attention_of(client, adela)
    assert (notice or "Nothing needs your attention right now.") in attention
    assert attention.count(f'{reverse("generation:batch", args=[batch.pk])}#budget"') == bool(notice)


def test_a_pause_has_its_reason_in_the_readers_language(client: Client, adela: User, tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    batch = launch_batch(source, endpoint(NOWHERE))
    life_cycle.pause(batch.pk, because="AuthFailed", detail=str(AuthFailed("no such key")))
    client.force_login(adela)
    for name, args in (("review:overview", []), ("generation:batch", [batch.pk])):
        page = client.get(reverse(name, args=args), headers={"Accept-Language": "zh-hans"}).content.decode()
        assert "模型端点拒绝了密钥（401、403）。 no such key" in page
