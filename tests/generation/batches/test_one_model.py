"""A launch in which a model checks its own work, or votes twice, is refused unless it says so."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from generation import errors
from generation.batches import launch, queries
from generation.batches.launch import BatchSettings
from generation.models import Batch, Endpoint, Source
from generation.recipes import registry
from generation.releases.freezing.card_facts import card_facts
from generation.releases.freezing.content import ReleaseTotals
from review.models import User
from tests.engine import Manage, conversations_file, endpoint, import_file

WARNING = "Examiner and Generator are one model"


@pytest.mark.parametrize("examiner", ["maker", "twin", "other"])
def test_page_api_and_command_refuse_an_examiner_that_is_the_generator_unless_it_is_allowed(
    manage: Manage, tmp_path: Path, models: str, adela: User, client: Client, examiner: str
) -> None:
    endpoint(models, name="maker")
    endpoint(models, name="twin")  # another endpoint of the same model
    endpoint(models, name="other", model="sim-checker")
    source = import_file(conversations_file(tmp_path / "own.jsonl", 3))
    shared = examiner != "other"
    api = APIClient()
    api.force_authenticate(adela)
    client.force_login(adela)
    body: dict[str, Any] = {"benchmark": "mhb", "source": source.name, "limit": 1, "confirmed": True}
    roles = {"generator": "maker", "examiner": examiner}
    form = {**body, "role-generator": "maker", "role-examiner": examiner, "confirmed": "1"}
    command: list[Any] = ["generate", "--benchmark", "mhb", "--source", source.name, "--limit", 1, "--yes"]
    command += ["--generator", "maker", "--role", f"examiner={examiner}"]
    if shared:
        refused = api.post("/api/v1/batches/", {**body, "roles": roles}, format="json")
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:mhb:shared-model")
        assert "examiner and generator" in client.post(reverse("generation:batch-new"), form).content.decode()
        assert "one_model" in manage.refusal(*command)
        assert not Batch.objects.exists()
        body["one_model"], form["one_model"] = True, "on"
        command.append("--one-model")
    estimate = api.post("/api/v1/batches/estimate/", {**body, "roles": roles}, format="json").json()
    assert bool(estimate["one_model"]) is shared
    unconfirmed = {name: value for name, value in form.items() if name != "confirmed"}
    page = client.post(reverse("generation:batch-new"), unconfirmed).content.decode()
    assert (WARNING in page) is shared
    assert api.post("/api/v1/batches/", {**body, "roles": roles}, format="json").status_code == 202
    assert client.post(reverse("generation:batch-new"), form).status_code == 302
    assert bool(manage.json(*command)["one_model"]) is shared
    for batch in Batch.objects.all():
        totals = ReleaseTotals()
        totals.batches.add(batch.pk)
        facts = card_facts("mhb", totals, [])
        assert facts["one_model"] == ([["examiner", "generator", "sim-generator"]] if shared else [])
    last = Batch.objects.latest("pk")
    assert launch.repeat_settings(last, {})["one_model"] is shared, "a repetition is as allowed as the launch"


def test_roles_that_no_chosen_check_needs_are_not_needed(db: None) -> None:
    maker = Endpoint(name="maker", model="sim-generator")
    roles = {"generator": maker}
    assert queries.bind_roles("mhb", roles, {"report"}, ()) == roles
    with pytest.raises(errors.RolesUnbound, match="checker, examiner"):
        queries.bind_roles("mhb", roles, {"report"})
    with pytest.raises(errors.RolesUnbound, match="examiner"):
        queries.bind_roles("mhb", roles, {"dialogue"})


def test_the_launch_page_asks_for_the_examiner_where_it_is_chosen(
    tmp_path: Path, models: str, adela: User, client: Client
) -> None:
    client.force_login(adela)
    maker = endpoint(models, name="maker")
    import_file(conversations_file(tmp_path / "own.jsonl", 1))
    url = reverse("generation:batch-new")
    label = client.get(f"{url}?benchmark=mhb&source=own").content.decode().partition('for="id_role-examiner"')[2]
    assert "(optional)" not in label.partition("</label>")[0]
    sent: dict[str, Any] = {"benchmark": "mhb", "source": "own", "role-generator": maker.name}
    refused: Any = client.post(url, sent)
    assert list(refused.context["form"].errors) == ["role-examiner"]
    needing = [name for role in registry.recipe("mhb").roles if role.name == "examiner" for name in role.checks]
    assert client.post(url, {**sent, "skip": needing}).status_code == 200, "no check needs one"


CHECKERS = {
    "mhb": ("checker", "examiner"),
    "medhal": ("filter",),
    "medhallu": ("voter_1", "voter_2", "voter_3", "critic", "entailment"),
    "clinhallu": ("judge", "reporter"),
    "medmistake": ("checker",),
}


@pytest.mark.parametrize(("benchmark", "role"), [(name, role) for name, roles in CHECKERS.items() for role in roles])
def test_no_benchmark_lets_a_model_check_its_own_work(benchmark: str, role: str) -> None:
    writer, *_others = registry.recipe(benchmark).roles
    endpoints = {writer.name: [Endpoint(model="m")], role: [Endpoint(model="m")]}
    assert queries.shared_models(benchmark, endpoints) == [(role, writer.name, "m")]
    (declared,) = (each for each in registry.recipe(benchmark).roles if each.name == role)
    assert declared.default != writer.name, "or leaving it out would be refused"


def test_no_doctor_of_a_launch_judges_its_own_conversations() -> None:
    doctors = [Endpoint(model="first"), Endpoint(model="org/further-2025-08-07")]
    for role in ("judge_1", "judge_2", "extractor"):
        assert queries.shared_models("medmistake", {"doctor": doctors, role: [Endpoint(model="further")]})
    judges = {role: [Endpoint(model="flash")] for role in ("judge_1", "judge_2", "extractor")}
    assert not queries.shared_models("medmistake", {"doctor": doctors, **judges}), "as in the paper"


def test_three_voters_are_three_models() -> None:
    same = {f"voter_{number}": [Endpoint(model="m")] for number in (1, 2, 3)}
    assert len(queries.shared_models("medhallu", same)) == 3
    assert not queries.shared_models("medhallu", {name: [Endpoint(model=name)] for name in same})


def test_a_launch_of_one_voter_in_three_roles_is_refused(db: None) -> None:
    roles = {f"voter_{number}": Endpoint(model="m") for number in (1, 2)} | {"generator": Endpoint(model="g")}
    settings = BatchSettings(benchmark="medhallu", source=Source(), roles=roles)
    with pytest.raises(errors.SharedModel, match="voter_2 and voter_1: m"):
        launch.check_independence(settings, settings.endpoints_in(roles, settings.players_in(roles)))
