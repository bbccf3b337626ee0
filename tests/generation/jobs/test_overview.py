"""The overview's notices of jobs that need a person."""

import html
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from generation.jobs import life_cycle
from generation.llm.errors import AuthFailed
from generation.models import Job
from review.models import User
from tests.engine import conversations_file, endpoint, import_file, launch_batch

pytestmark = pytest.mark.django_db
NOWHERE = "http://localhost:9/v1"


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
    client.force_login(adela)
    page = html.unescape(client.get(reverse("review:overview")).content.decode())
    attention = page.partition('id="attention"')[2].partition("</section>")[0]
    assert (notice or "Nothing needs your attention right now.") in " ".join(attention.split())
    assert attention.count(f'{reverse("generation:batch", args=[batch.pk])}#budget"') == bool(notice)


def test_a_pause_has_its_reason_in_the_readers_language(client: Client, adela: User, tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    batch = launch_batch(source, endpoint(NOWHERE))
    life_cycle.pause(batch.pk, because="AuthFailed", detail=str(AuthFailed("no such key")))
    client.force_login(adela)
    for name, args in (("review:overview", []), ("generation:batch", [batch.pk])):
        page = client.get(reverse(name, args=args), headers={"Accept-Language": "zh-hans"}).content.decode()
        assert "模型端点拒绝了密钥（401、403）。 no such key" in page
