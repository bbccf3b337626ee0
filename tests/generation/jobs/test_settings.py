"""A setting is declared once: form, API, command, stored job and repetition follow."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from django.core.management.base import CommandError, CommandParser
from django.db.models import TextChoices
from pydantic import Field
from pydantic.fields import FieldInfo

from evaluation.runs.forms import RunForm
from evaluation.runs.serializers import RunSettingsSerializer
from evaluation.runs.settings import RunSettings
from generation.batches.launch import BatchSettings
from generation.batches.serializers import BatchSettingsSerializer
from generation.comparisons.api import ComparisonSettingsSerializer
from generation.errors import InvalidSettings
from generation.jobs.forms import BUDGET, SettingsForm
from generation.jobs.serializers import SettingsSerializer
from generation.jobs.settings import AskedAs, LaunchSettings, settings_of
from generation.management.command_line import SettingsOptions, named_value


class Leaf(TextChoices):
    GREEN = "green", "Green"
    BLACK = "black", "Black"


class Tea(LaunchSettings):
    """Settings of a launch that no app has."""

    leaf: Leaf = Field(Leaf.GREEN, title="Leaf")
    cups: Annotated[int, AskedAs(column="cups_each")] = Field(1, title="Cups", description="100 % full.", ge=1, le=9)
    spices: Annotated[Sequence[Annotated[str, Field(max_length=20)]], AskedAs(option="--spice")] = Field(
        (), title="Spices", max_length=2
    )
    heat: float | None = Field(None, title="Heat", ge=0)
    extras: Mapping[str, Any] = Field(default_factory=dict, title="Extras", serialization_alias="more")
    only: Mapping[str, Sequence[Annotated[str, Field(max_length=5)]]] = Field(default_factory=dict, title="Only")


class TeaForm(SettingsForm):
    settings_class = Tea
    omitted = ("extras", "only")


class TeaSerializer(SettingsSerializer):
    settings_class = Tea


def parse(*arguments: str) -> dict[str, Any]:
    parser = CommandParser(called_from_command_line=False)
    SettingsOptions(settings=Tea).add(parser, "tea", FieldInfo())
    return {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}


def test_form_api_and_command_give_the_same_settings() -> None:
    wanted = Tea(leaf="black", cups=3, spices=["mint", "clove"], heat=0.5, fresh=True)
    form = TeaForm({"leaf": "black", "cups": "3", "spices": "mint, clove", "heat": "0.5", "fresh": "on"})
    assert form.is_valid(), form.errors
    assert Tea(**form.values) == wanted
    body = {"leaf": "black", "cups": 3, "spices": ["mint", "clove"], "heat": 0.5, "fresh": True}
    request = TeaSerializer(data=body)
    assert request.is_valid(), request.errors
    assert Tea(**request.validated_data) == wanted
    options = parse("--leaf", "black", "--cups", "3", "--spice", "mint,clove", "--heat", "0.5", "--fresh")
    assert options == body
    assert (parse(), Tea(**parse())) == ({}, Tea())


@pytest.mark.parametrize(("name", "value"), [("leaf", "red"), ("cups", "10"), ("heat", "-1"), ("cups", "x")])
def test_form_api_and_command_refuse_the_same_values(name: str, value: str) -> None:
    form, request = TeaForm({name: value}), TeaSerializer(data={name: value})
    assert not form.is_valid()
    assert not request.is_valid()
    assert (list(form.errors), list(request.errors)) == ([name], [name])
    with pytest.raises(CommandError, match=f"--{name}"):
        parse(f"--{name}", value)


def test_values_by_name_are_an_object_in_the_api_and_pairs_in_a_command() -> None:
    request = TeaSerializer(data={"more": {"milk": 2}, "only": {"origin": ["Assam", "Yunnan"]}})
    assert not request.is_valid()
    assert list(request.errors) == ["only"], "a value has at most five characters"
    request = TeaSerializer(data={"more": {"milk": 2}, "only": {"origin": ["Assam", "Uva"]}})
    assert request.is_valid(), request.errors
    assert request.validated_data["extras"] == {"milk": 2}
    options = parse("--extras", "milk=2", "--extras", "cup=mine", "--only", "origin=Assam", "--only", "origin = Uva")
    extras, only = (each for each in settings_of(Tea) if each.named)
    assert named_value(extras, options["extras"]) == {"milk": 2, "cup": "mine"}
    assert named_value(only, options["only"]) == {"origin": ["Assam", "Uva"]}
    with pytest.raises(CommandError, match="NAME=VALUE"):
        parse("--only", "origin")


def test_a_list_has_at_most_its_entries_and_is_shown_as_it_is_typed() -> None:
    assert not TeaSerializer(data={"spices": ["a", "b", "c"]}).is_valid()
    assert 'value="mint, clove"' in str(TeaForm(initial={"spices": ["mint", "clove"]})["spices"])


def test_a_job_keeps_the_settings_that_have_a_column() -> None:
    assert Tea(cups=4).columns == {"cups_each": 4}
    assert Tea.stored_values(SimpleNamespace(cups_each=4)) == {"cups": 4}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"leaf": "red"}, "leaf"),
        ({"cups": 10}, "cups"),
        ({"spices": ["a", "b", "c"]}, "spices"),
        ({"sugar": 1}, "sugar"),
    ],
)
def test_a_service_never_sees_values_that_cannot_be(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^These settings cannot be used. {reason}: [^\\n]+$"):
        Tea(**values)


@pytest.mark.django_db
def test_every_setting_of_a_run_is_asked_for_on_the_page_and_in_the_api() -> None:
    names = set(RunSettings.model_fields)
    assert names <= set(RunSettingsSerializer().fields)
    assert names - set(RunForm().fields) == {
        "datasets",
        "outcomes",
        "primary_dataset",
        "seed",
        "prompts",
        "preset",
        "policies",
        "policy_samples",
        *BUDGET,
    }, "these depend on the release, and the budget is asked for beside the estimate"
    asked = {each.api_name for each in settings_of(BatchSettings)}
    assert asked <= set(ComparisonSettingsSerializer().fields)
    assert set(BatchSettingsSerializer().fields) == set(ComparisonSettingsSerializer().fields) - {"compare"}
