"""A launch under a key is made once: sent again it is answered with the same, and another one under the key is refused."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.models import Run
from generation.models import Batch, Comparison, Release
from review.models import User
from review.rules.permissions import UserRole
from tests.api.conftest import Api
from tests.api.test_problems import problem
from tests.engine import bare_release, drafts, endpoint
from tests.review.factories import account

BATCH: dict[str, Any] = {
    "benchmark": "mhb", "source": "own", "limit": 1, "roles": {"generator": "big"}, "budget_money": "5",
    "checks": ["identical"], "plan": {"A1": 3, "C": 2},
}  # fmt: skip
OTHER_BATCHES: list[dict[str, Any]] = [
    {"limit": 2}, {"budget_money": "6"}, {"budget_money": None, "budget_calls": 5}, {"roles": {"generator": "small"}},
    {"plan": {"A1": 3, "C": 3}}, {"checks": []}, {"fresh": True}, {"prompts": "v1"},
]  # fmt: skip
RUN: dict[str, Any] = {"release": "bare", "endpoints": ["big"], "judge": "small", "budget_calls": 8}
OTHER_RUNS: list[dict[str, Any]] = [
    {"budget_calls": 9}, {"endpoints": ["big", "small"]}, {"judge": "big"}, {"judge_temperature": 0.5}, {"seed": 3},
    {"sampling": "endpoint"}, {"judging": "per-sample"}, {"fresh": True},
]  # fmt: skip


@pytest.fixture
def ready(db: None) -> None:
    bare_release(("dialogue", [["A1"]]))
    batch = drafts(4, "own")
    batch.drafts.all().delete()
    for name in ("big", "small"):
        endpoint("http://models.example/v1", name)


def _again(client: Any, route: str, body: dict[str, Any], others: list[dict[str, Any]], same: dict[str, Any]) -> None:
    address, key = reverse(route), {"headers": {"Idempotency-Key": "mine"}}
    first = client.post(address, body, **key)
    assert first.status_code == 202, first.content
    for repeated in (body, {**body, **same}):
        again = client.post(address, repeated, **key)
        assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    for other in others:
        refused = problem(client.post(address, {**body, **other}, **key), 409)
        assert refused["type"] == "urn:mhb:key-reused", other


@pytest.mark.usefixtures("ready")
def test_a_batch(api: Api, adela: User) -> None:
    before = Batch.objects.count()
    _again(api(adela), "api:batches", BATCH, OTHER_BATCHES, {"budget_money": "5.00", "fresh": False})
    assert Batch.objects.count() == before + 1


@pytest.mark.usefixtures("ready")
def test_a_comparison(api: Api, adela: User) -> None:
    body = {**BATCH, "compare": "v1"}
    _again(api(adela), "api:comparisons", body, [{"limit": 2}, {"prompts": "v1", "compare": ""}], {"prompts": ""})
    assert Comparison.objects.count() == 1


@pytest.mark.usefixtures("ready")
def test_a_run(api: Api, adela: User) -> None:
    _again(api(adela), "api:runs", RUN, OTHER_RUNS, {"seed": 0, "judging": "per-rubric"})
    assert Run.objects.count() == 1


@pytest.mark.usefixtures("ready")
def test_another_person_has_keys_of_their_own(api: Api, adela: User) -> None:
    both = (adela, account("other", UserRole.ADMIN))
    key = {"Idempotency-Key": "mine"}
    made = [api(who).post(reverse("api:runs"), RUN, headers=key).json()["id"] for who in both]
    assert made[0] != made[1]


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("where", "sent", "kind"),
    [
        ("generation:batch-new", {"benchmark": "mhb", "source": "own", "role-generator": "big", "limit": "1"}, Batch),
        ("evaluation:run-new", {"release": "1", "endpoints": ["big"], "judge": "small", "judging": "per-rubric"}, Run),
    ],
)
def test_the_token_of_a_page(client: Client, adela: User, where: str, sent: dict[str, Any], kind: Any) -> None:
    client.force_login(adela)
    if "release" in sent:
        sent = {**sent, "release": str(Release.objects.get().pk)}
    before = kind.objects.count()
    estimated: Any = client.post(reverse(where), sent)
    assert estimated.status_code == 200, estimated.context["form"].errors
    carried: dict[str, list[str]] = {}
    for name, value in estimated.context["carried"]:
        carried.setdefault(name, []).append(value)
    budget = {**carried, "budget_calls": "8", "confirmed": "1"}
    first, again = client.post(reverse(where), budget), client.post(reverse(where), budget)
    assert (first.status_code, first["Location"]) == (again.status_code, again["Location"]) == (302, first["Location"])
    other = client.post(reverse(where), {**budget, "budget_calls": "9"})
    assert other.status_code == 409
    assert "already used for a different launch" in other.content.decode()
    assert kind.objects.count() == before + 1
