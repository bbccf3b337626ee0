"""A launch happens once per idempotency key.

A repeated request returns the same job; a different request under the same key is refused.
"""

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
def launchable(db: None) -> None:
    bare_release(("dialogue", [["A1"]]))
    batch = drafts(4, "own")
    batch.drafts.all().delete()
    for name in ("big", "small"):
        endpoint("http://models.example/v1", name)


def assert_launched_once(
    client: Any, route: str, body: dict[str, Any], others: list[dict[str, Any]], same: dict[str, Any]
) -> None:
    """Launch, repeat the launch, and try others under the same key.

    Each of `others` changes fields of the body and must be refused; `same` changes it only in form.
    """
    address, key = reverse(route), {"headers": {"Idempotency-Key": "mine"}}
    first = client.post(address, body, **key)
    assert first.status_code == 202, first.content
    for repeated in (body, {**body, **same}):
        again = client.post(address, repeated, **key)
        assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    for other in others:
        refused = problem(client.post(address, {**body, **other}, **key), 409)
        assert refused["type"] == "urn:mhb:key-reused", other


@pytest.mark.usefixtures("launchable")
def test_a_batch_is_launched_once(api: Api, adela: User) -> None:
    before = Batch.objects.count()
    assert_launched_once(api(adela), "api:batches", BATCH, OTHER_BATCHES, {"budget_money": "5.00", "fresh": False})
    assert Batch.objects.count() == before + 1


@pytest.mark.usefixtures("launchable")
def test_a_comparison_is_launched_once(api: Api, adela: User) -> None:
    body = {**BATCH, "compare": "v1"}
    assert_launched_once(
        api(adela), "api:comparisons", body, [{"limit": 2}, {"prompts": "v1", "compare": ""}], {"prompts": ""}
    )
    assert Comparison.objects.count() == 1


@pytest.mark.usefixtures("launchable")
def test_a_run_is_launched_once(api: Api, adela: User) -> None:
    assert_launched_once(api(adela), "api:runs", RUN, OTHER_RUNS, {"seed": 0, "judging": "per-rubric"})
    assert Run.objects.count() == 1


@pytest.mark.usefixtures("launchable")
def test_each_person_has_their_own_keys(api: Api, adela: User) -> None:
    both = (adela, account("other", UserRole.ADMIN))
    key = {"Idempotency-Key": "mine"}
    ids = [api(person).post(reverse("api:runs"), RUN, headers=key).json()["id"] for person in both]
    assert ids[0] != ids[1]


@pytest.mark.usefixtures("launchable")
@pytest.mark.parametrize(
    ("route", "fields", "kind"),
    [
        (
            "generation:batch-new",
            {"benchmark": "mhb", "source": "own", "role-generator": "big", "role-examiner": "small", "limit": "1"},
            Batch,
        ),
        ("evaluation:run-new", {"release": "1", "endpoints": ["big"], "judge": "small", "judging": "per-rubric"}, Run),
    ],
)
def test_a_launch_page_posted_twice_launches_once(
    client: Client, adela: User, route: str, fields: dict[str, Any], kind: Any
) -> None:
    client.force_login(adela)
    if "release" in fields:
        fields = {**fields, "release": str(Release.objects.get().pk)}
    before = kind.objects.count()
    estimated: Any = client.post(reverse(route), fields)
    assert estimated.status_code == 200, estimated.context["form"].errors
    carried: dict[str, list[str]] = {}
    for name, value in estimated.context["carried"]:
        carried.setdefault(name, []).append(value)
    budget = {**carried, "budget_calls": "8", "confirmed": "1"}
    first, again = client.post(reverse(route), budget), client.post(reverse(route), budget)
    assert (first.status_code, first["Location"]) == (again.status_code, again["Location"]) == (302, first["Location"])
    other = client.post(reverse(route), {**budget, "budget_calls": "9"})
    assert other.status_code == 409
    assert "already used for a different launch" in other.content.decode()
    assert kind.objects.count() == before + 1
