"""The actions on endpoints."""

from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.db import models
from pydantic import Field
from pydantic.fields import FieldInfo

from generation import tasks
from generation.endpoints import queries, services
from generation.endpoints.forms import EndpointForm
from generation.llm.provider_words import DECISIONS
from generation.models import ENDPOINT_FIELDS, Endpoint
from generation.trials.findings import TrialFinding
from review.common.commands import Action, Positional, Shell, escaped, option_of
from review.rules import json_nesting

SETTINGS = (*ENDPOINT_FIELDS[1:], "batch_discount")  # without its name


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


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(Shell):
    """An option for each setting: type and default are the model's, the help is the page's."""

    def add(self, parser: Any, name: str, field: FieldInfo) -> None:
        for setting in SETTINGS:
            parser.add_argument(option_of(setting), **self._setting_words(setting))

    def value(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {setting: options[setting] for setting in SETTINGS}

    def _setting_words(self, name: str) -> dict[str, Any]:
        field: Any = Endpoint._meta.get_field(name)
        shown = EndpointForm.base_fields.get(name)
        text = "Price factor for provider batches."
        if shown:
            text = str(shown.help_text or shown.label)
        words = {"help": escaped(text), "default": field.get_default()}
        if isinstance(field, models.BooleanField):
            return {**words, "action": "store_true"}
        if isinstance(field, models.JSONField):
            return {**words, "type": parse_fields, "metavar": "JSON"}
        return {
            **words,
            "type": partial(parse_value, field),
            "choices": dict(field.choices or ()) or None,
            "required": not (field.blank or field.has_default()),
        }


class AddEndpoint(Action):
    """Add an endpoint: a model at an OpenAI-compatible address."""

    name: Positional[str]
    settings: Annotated[dict[str, Any], EndpointOptions()]

    def perform(self) -> dict[str, Any]:
        endpoint = services.add_endpoint(name=self.name, **self.settings)
        return {
            "endpoint": endpoint.name,
            "url": endpoint.url,
            "model": endpoint.model,
            "simulated": endpoint.simulated,
        }


class ControlEndpoint(Action):
    """Disable an endpoint (what runs goes on), enable it again, or delete one that was never used
    or tested.
    """

    action: Positional[Literal["disable", "enable", "delete"]]
    name: Positional[str]

    def perform(self) -> dict[str, Any]:
        endpoint = queries.endpoint(self.name)
        if self.action == "delete":
            services.delete_endpoint(endpoint)
        else:
            services.set_disabled(endpoint, disabled=self.action == "disable")
        return {"endpoint": self.name, "state": f"{self.action}d"}


class DecideEnding(Action):
    """Decide what an unknown ending (finish reason) of an endpoint's replies means, or list those
    to decide. Retry failed rows afterwards: what is paid for is read again.
    """

    name: Positional[str]
    ending: Positional[str | None] = Field(None, description="as the endpoint says it; none: it says nothing")
    meaning: Annotated[str | None, Shell(positional=True, choices=[str(meaning) for meaning in DECISIONS])] = None

    def perform(self) -> dict[str, Any]:
        endpoint = queries.endpoint(self.name)
        if self.ending is not None and self.meaning is not None:
            endpoint = services.decide_ending(endpoint, self.ending, self.meaning)
        undecided = [asdict(ending) for ending in queries.unknown_endings(endpoint)]
        return {
            "endpoint": endpoint.name,
            "endings": endpoint.endings,
            "undecided": undecided,
            "failed": int(self.ending is not None and self.meaning is None),
        }


class TestEndpoint(Action):
    """Ask an endpoint one question as jobs ask: latency, tokens, structured output, cost. Exit code
    1 if it does not answer, or cannot do what jobs ask for.
    """

    name: Positional[str]
    images: bool = Field(False, description="show it a picture too: one more call")

    def perform(self) -> dict[str, Any]:
        endpoint = queries.endpoint(self.name)
        result = tasks.test_endpoint(endpoint, images=self.images)
        findings = []
        for finding in result.findings:
            findings.append(f"{TrialFinding(**finding).words} {finding['detail']}".strip())
        return {
            "endpoint": endpoint.name,
            **asdict(result),
            "price_in": endpoint.price_in,
            "price_out": endpoint.price_out,
            "findings": findings,
            "failed": int(not result.answered or bool(result.findings)),
        }
