"""Launches that repeat the settings of an earlier batch, by shell and API."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from generation.batches.launch import repeat_settings
from generation.models import Batch
from review.models import User
from tests.engine import Manage, conversations_file, endpoint, import_file, simulator

pytestmark = pytest.mark.django_db


@pytest.fixture
def models() -> Iterator[str]:
    with simulator() as url:
        yield url


@pytest.fixture
def first(manage: Manage, tmp_path: Path, models: str) -> Batch:
    """A batch whose settings differ from the defaults."""
    for name in ("maker", "other"):
        endpoint(models, name=name)
    import_file(conversations_file(tmp_path / "own.jsonl", 6))
    (tmp_path / "plan.json").write_text('{"A1": 3, "A2": 1}')
    required = (
        "--benchmark",
        "mhb",
        "--source",
        "own",
        "--role",
        "generator=maker",
        "--role",
        "examiner=other",
        "--one-model",
        "--yes",
    )
    choices = ("--draw", "random", "--seed", "7", "--limit", "2", "--plan", tmp_path / "plan.json", "--skip", "alike")
    printed = manage.json("generate", *required, *choices, "--where", "task=dialogue", "--budget-calls", "99")
    return Batch.objects.get(pk=printed["batch"])


def roles(batch: Batch) -> dict[str, str]:
    return dict(batch.roles.values_list("role", "endpoint__name"))


def test_the_shell_repeats_the_settings_that_are_not_given(manage: Manage, first: Batch) -> None:
    printed = manage.json("generate", "--like", first.pk, "--role", "examiner=maker", "--limit", "1", "--yes")
    again = Batch.objects.get(pk=printed["batch"])
    assert roles(again) == roles(first) | {"examiner": "maker"}
    assert (again.draw["mode"], again.draw["seed"], again.draw["where"]) == ("random", 7, {"task": ["dialogue"]})
    assert (again.plan["name"], again.checks, again.preset) == ("own", first.checks, first.preset)
    assert again.draw["drawn"] == 1
    assert again.budget_calls is None, "a budget belongs to one launch"
    other = manage.json("generate", "--like", first.pk, "--plan", "none", "--draw", "first", "--limit", "1", "--yes")
    assert Batch.objects.get(pk=other["batch"]).plan == {}
    assert other["draw"]["mode"] == "first"


def test_the_shell_says_what_is_missing(manage: Manage, first: Batch) -> None:
    assert "Give --benchmark and --source, or --like BATCH." in manage.refusal("generate", "--yes")
    assert "no batch with this number" in manage.refusal("generate", "--like", "999", "--yes")
    assert "another benchmark" in manage.refusal("generate", "--like", first.pk, "--benchmark", "medhal", "--yes")


def test_the_api_repeats_the_settings_that_are_not_given(first: Batch, admin_client: Client) -> None:
    def post(address: str, **body: Any) -> Any:
        return admin_client.post(f"/api/v1/batches/{address}", json.dumps(body), "application/json")

    assert post("estimate/", like=first.pk, limit=1).status_code == 200
    launched = post("", like=first.pk, limit=1, confirmed=True, roles={"examiner": "maker"})
    assert launched.status_code == 202, launched.content
    assert launched.json()["roles"] == roles(first) | {"examiner": "maker"}
    assert launched.json()["draw"]["seed"] == 7
    assert launched.json()["checks"] == first.checks
    missing = post("", confirmed=True)
    assert missing.status_code == 400
    assert {error["field"] for error in missing.json()["errors"]} == {"benchmark", "source", "roles"}
    for like in (999, "x", -1):
        wrong = post("", like=like, confirmed=True)
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "like"), like
    assert post("", like=first.pk, benchmark="medhal", confirmed=True).status_code == 400
    assert post("", like=first.pk, confirmed=True, roles=[1]).status_code == 400
    assert post("", like=first.pk).status_code == 400, "neither budget nor confirmed"


def test_another_preset_drops_the_overrides(first: Batch) -> None:
    first.changed, first.settings, first.preset = ["tries"], {"tries": 9}, "paper"
    assert repeat_settings(first, {})["settings"] == {"tries": 9}
    assert repeat_settings(first, {"settings": {"sugar": 1}})["settings"] == {"tries": 9, "sugar": 1}
    assert repeat_settings(first, {"preset": "released"})["settings"] == {}


def test_only_users_who_may_launch_see_the_settings(first: Batch, client: Client, ana: User) -> None:
    client.force_login(ana)
    body = json.dumps({"like": first.pk, "confirmed": True})
    assert client.post("/api/v1/batches/", body, "application/json").status_code == 403
