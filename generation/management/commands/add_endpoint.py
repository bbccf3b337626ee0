"""add_endpoint NAME --url URL --model MODEL [--key-env VAR] ..."""

from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from generation.endpoints import services
from generation.endpoints.forms import EndpointForm
from generation.models import ENDPOINT_FIELDS, Endpoint
from review.management.step_command import StepCommand
from review.rules import json_nesting

SETTINGS = (*ENDPOINT_FIELDS, "batch_discount")


def parse_fields(text: str) -> dict[str, Any]:
    """Parse request fields given as an option. Raises ArgumentTypeError."""
    try:
        fields = json_nesting.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ArgumentTypeError("not a JSON object")
    return fields


def parse_value(field: "models.Field[Any, Any]", text: str) -> Any:
    """A value given as an option. Raises ArgumentTypeError."""
    try:
        return field.to_python(text)
    except ValidationError as error:
        raise ArgumentTypeError(" ".join(error.messages)) from None


def option(name: str) -> dict[str, Any]:
    """The command's option for a setting: its type and default are the model's, its help the page's."""
    field: Any = Endpoint._meta.get_field(name)
    shown = EndpointForm.base_fields.get(name)
    text = "Price factor for provider batches."
    if shown:
        text = str(shown.help_text or shown.label)
    options = {"help": text.replace("%", "%%"), "default": field.get_default()}
    if isinstance(field, models.BooleanField):
        return {**options, "action": "store_true"}
    if isinstance(field, models.JSONField):
        return {**options, "type": parse_fields, "metavar": "JSON"}
    required = not (field.blank or field.has_default())
    return {
        **options,
        "type": partial(parse_value, field),
        "choices": dict(field.choices or ()) or None,
        "required": required,
    }


class Command(StepCommand):
    help = "Add an endpoint: a model at an OpenAI-compatible address."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        for name in SETTINGS[1:]:
            parser.add_argument(f"--{name.replace('_', '-')}", **option(name))

    def step(self, **options: Any) -> dict[str, Any]:
        endpoint = services.add_endpoint(**{name: options[name] for name in SETTINGS})
        return {"endpoint": endpoint.name, **{name: getattr(endpoint, name) for name in ("url", "model", "simulated")}}
