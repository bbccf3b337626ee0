"""A setting is declared once: form, API, command, stored job and repetition follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from django.core.management.base import CommandError, CommandParser

from evaluation.runs.forms import LaunchForm
from evaluation.runs.serializers import RunSettingsSerializer
from evaluation.runs.settings import RunSettings
from generation.batches.launch import BatchSettings
from generation.jobs.forms import SettingsForm
from generation.jobs.serializers import SettingsSerializer
from generation.jobs.settings import LaunchSettings, Setting, columns, declared, stored_values
from generation.management.command_line import add_settings


@dataclass(frozen=True, slots=True)
class Tea(LaunchSettings):
    """Settings of a launch that no app has."""

    leaf: Annotated[str, Setting("Leaf", choices=[("green", "Green"), ("black", "Black")])] = "green"
    cups: Annotated[int, Setting("Cups", "100 % full.", least=1, most=9, column="cups_each")] = 1
    spices: Annotated[Sequence[str], Setting("Spices", most=20, entries=2, option="--spice")] = ()
    heat: Annotated[float | None, Setting("Heat", least=0)] = None


class TeaForm(SettingsForm):
    settings_class = Tea


class TeaSerializer(SettingsSerializer):
    settings_class = Tea


def parse(*arguments: str) -> dict[str, Any]:
    parser = CommandParser(called_from_command_line=False)
    add_settings(parser, Tea)
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


def test_a_list_has_at_most_its_entries_and_is_shown_as_it_is_typed() -> None:
    assert not TeaSerializer(data={"spices": ["a", "b", "c"]}).is_valid()
    assert 'value="mint, clove"' in str(TeaForm(initial={"spices": ["mint", "clove"]})["spices"])


def test_a_job_keeps_the_settings_that_have_a_column() -> None:
    assert columns(Tea(cups=4)) == {"cups_each": 4}
    assert stored_values(Tea, SimpleNamespace(cups_each=4)) == {"cups": 4}


@pytest.mark.django_db
def test_every_setting_of_a_run_is_asked_for_on_the_page_and_in_the_api() -> None:
    names = {each.name for each in declared(RunSettings)}
    assert set(RunSettings.__dataclass_fields__) == names, "a field without a declaration appears nowhere"
    assert names <= set(RunSettingsSerializer().fields)
    assert names - set(LaunchForm().fields) == {
        "datasets",
        "outcomes",
        "primary_dataset",
        "seed",
        "prompts",
        "preset",
    }, "these depend on the release"
    undeclared = set(BatchSettings.__dataclass_fields__) - {each.name for each in declared(BatchSettings)}
    assert undeclared == {"roles", "beside", "where", "plan", "compare", "changes", "checks"}, "composed differently"
