"""Endpoints as people choose them: fields of forms, with their health beside them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.translation import gettext

from generation.llm.errors import in_words
from generation.models import Endpoint


@dataclass(frozen=True, slots=True)
class Health:
    """Whether an endpoint can be used. `state`: of its badge. `at`: of its last test."""

    state: str
    words: str
    why: str = ""
    at: datetime | None = None


def health(endpoint: Endpoint) -> Health:
    """The health of an endpoint: disabled, unavailable, or by its last test."""
    if endpoint.disabled:
        return Health("cancelled", gettext("disabled"))
    state, test = getattr(endpoint, "state", None), endpoint.last_test
    if state and state.down_since:
        return Health("failed", gettext("unavailable"), error_words(state.error), state.down_since)
    if state and state.blocked_until and state.blocked_until > timezone.now():
        return Health("paused", gettext("paused"), error_words(state.error), state.blocked_until)
    if not test:
        return Health("queued", gettext("not tested"))
    at = datetime.fromisoformat(test["at"])
    if test["answered"]:
        return Health("finished", gettext("answered"), "", at)
    return Health("failed", gettext("did not answer"), error_words(test["error"]), at)


def error_words(code: str, detail: str = "") -> str:
    """The sentence of an error of a call in the reader's language, then its detail."""
    return in_words(code, detail, translate=gettext)


def price(endpoint: Endpoint) -> str:
    """'0.50 / 1.50 USD', per million tokens of input and output."""
    amounts = (formats.number_format(amount.normalize(), None) for amount in (endpoint.price_in, endpoint.price_out))
    return f"{' / '.join(amounts)} {settings.MHB_CURRENCY}".rstrip()


def _about(endpoint: Endpoint) -> str:
    """Model, price and health in one line."""
    found = health(endpoint)
    tested = ""
    if found.at:
        tested = f" {formats.date_format(timezone.localtime(found.at), 'SHORT_DATE_FORMAT')}"
    return " · ".join((endpoint.model, price(endpoint), found.words + tested))


class EndpointChoice(forms.ModelChoiceField[Endpoint]):
    """One endpoint that can be called, with its price and health."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(queryset=Endpoint.objects.usable(), to_field_name="name", **kwargs)

    def label_from_instance(self, obj: Endpoint) -> str:
        return f"{obj.name} · {_about(obj)}"


class Picks(forms.CheckboxSelectMultiple):
    """Tick-boxes in a box that scrolls; with JavaScript (launch.js) it can be searched."""

    searchable = True  # for the template of fields


class EndpointChoices(forms.ModelMultipleChoiceField[Endpoint]):
    """Several endpoints that can be called, each with its price and health."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(queryset=Endpoint.objects.usable(), to_field_name="name", widget=Picks, **kwargs)

    def label_from_instance(self, obj: Endpoint) -> str:
        return format_html("<strong>{}</strong> <span class='quiet small'>{}</span>", obj.name, _about(obj))
