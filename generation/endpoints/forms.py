"""The form of an endpoint."""

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from generation.common.fields import JSONValueField, NamesSecret
from generation.llm.errors import KeyMissing, NotAllowed
from generation.llm.provider_words import Ending
from generation.models import ENDPOINT_FIELDS, Endpoint
from generation.models.endpoints import MAX_ENDING, MAX_EXTRA_CHARS
from review.common.row_fields import GrowingForm, RowsField

SHOWN = ("name", "url", "model", "key_env", "price_in", "price_out")  # the others are folded away


MEANINGS = {
    Ending.COMPLETE: _("complete"),
    Ending.CUT_OFF: _("cut off"),
    Ending.FILTERED: _("filtered by the provider"),
    Ending.REFUSED: _("refused"),
    Ending.FAILED: _("failure of the provider"),
}


TEXTS: dict[str, tuple[Any, Any]] = {  # label and help of the fields
    "name": (_("Name"), _("Use letters, digits and hyphens. Results refer to this name.")),
    "url": (_("Base URL"), _("Up to and including /v1. The path of a call, such as /chat/completions, is taken off.")),
    "key_env": (
        _("API key variable"),
        _(
            "The NAME of an environment variable on the server, never the key itself: MHB_KEY_... or one that the "
            "operator has listed. Leave empty to send no key."
        ),
    ),
    "model": (_("Model"), _("The model name that the endpoint expects.")),
    "temperature": (_("Temperature"), _("Leave empty for the model's default.")),
    "top_p": (_("Top p (nucleus sampling)"), _("Leave empty for the model's default.")),
    "max_tokens": (_("Maximum tokens"), _("Of a reply. Leave empty for what the context leaves, 16,384 at most.")),
    "completion_tokens": (_("Send the limit as max_completion_tokens"), _("Newer reasoning models refuse max_tokens.")),
    "default_sampling": (
        _("Send neither temperature nor top_p"),
        _("For models that refuse them, whatever a benchmark sets."),
    ),
    "no_system_role": (
        _("Send no system role"),
        _("For models whose chat template has none, such as Gemma 2: its text begins the first turn of the user."),
    ),
    "alternating_roles": (
        _("Alternate user and assistant strictly"),
        _("For chat templates that want the user first, and no speaker twice in a row."),
    ),
    "prompt_cache_key": (
        _("Send prompt_cache_key"),
        _("The same for prompts that begin alike, for providers that find their cache by it. Others refuse it."),
    ),
    "reasoning_effort": (_("Reasoning effort"), _("For example low, medium or high. Leave empty to send none.")),
    "family": (_("Model family"), _("Leave empty to take it from the model's name: gpt-4o is gpt.")),
    "price_in": (_("Input price"), _("Per million prompt tokens.")),
    "price_out": (_("Output price"), _("Per million completion tokens.")),
    "price_cached": (
        _("Price of cached input"),
        _("Per million prompt tokens from the provider's cache. Leave empty for the input price."),
    ),
    "price_written": (
        _("Price of input written into the cache"),
        _(
            "Per million prompt tokens that the provider puts there, if it charges more for them. Leave empty for the "
            "input price."
        ),
    ),
    "context_tokens": (
        _("Context length (tokens)"),
        _("Prompt and reply together. Leave empty for what the endpoint tells."),
    ),
    "output_format": (_("Output format"), _("Leave empty to find out what the endpoint accepts.")),
    "reasoning_start": (_("Start of reasoning"), _("The mark before the model's reasoning, if it has one of its own.")),
    "reasoning_end": (_("End of reasoning"), _("The mark after it. Known marks, such as <think>, need no entry.")),
    "concurrency": (_("Concurrency"), _("Maximum number of simultaneous requests.")),
    "rpm": (_("Requests per minute"), _("Leave empty for no limit.")),
    "tpm": (_("Tokens per minute"), _("Prompt and completion tokens together. Leave empty for no limit.")),
    "timeout": (_("Timeout (s)"), ""),
    "batches": (
        _("Supports provider batches"),
        _("The endpoint supports the batch protocol (files and batches): cheaper, with replies within a day."),
    ),
}


class EndpointForm(NamesSecret, GrowingForm, forms.ModelForm[Endpoint]):
    """A model's address and settings."""

    hidden_if_refused = "key_env"

    class Meta:
        model = Endpoint
        fields = ENDPOINT_FIELDS
        labels = {name: label for name, (label, _help) in TEXTS.items()}
        help_texts = {name: text for name, (_label, text) in TEXTS.items()}

        error_messages = {
            "name": {"invalid": _("Use letters, digits, hyphens and underscores only, without spaces.")},
            "url": {"invalid": _("Begin with http:// or https://. Spaces and @ are not allowed.")},
        }

    def __init__(self, *args: Any, called: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].disabled = self.instance.pk is not None
        if settings.MHB_CURRENCY:
            for name in ("price_in", "price_out", "price_cached", "price_written"):
                self.fields[name].label = f"{self.fields[name].label} ({settings.MHB_CURRENCY})"
        if self.instance.context_found:
            self.fields["context_tokens"].widget.attrs["placeholder"] = str(self.instance.context_found)
        for name in ("url", "model"):
            self.fields[name].disabled = called
        self.fields["extra_body"] = RowsField(
            {
                "field": forms.CharField(label=gettext("Field"), max_length=200),
                "value": JSONValueField(label=gettext("Value"), max_length=MAX_EXTRA_CHARS),
            },
            keys=1,
            label=gettext("Extra request fields"),
            help_text=gettext("Sent with every chat request, for example seed and 1. Never a key."),
        )
        self.fields["endings"] = RowsField(
            {
                "ending": forms.CharField(label=gettext("Finish reason"), max_length=MAX_ENDING),
                "meaning": forms.ChoiceField(label=gettext("Meaning"), choices=[("", "---------"), *MEANINGS.items()]),
            },
            keys=1,
            label=gettext("Unknown endings"),
            help_text=gettext("What finish reasons mean that MHB does not know."),
        )
        extra = self.instance.extra_body.items()
        self.initial["extra_body"] = [(name, JSONValueField.typed(value)) for name, value in extra]
        self.initial["endings"] = list(self.instance.endings.items())

    def clean_extra_body(self) -> dict[str, Any]:
        return dict(self.cleaned_data["extra_body"])

    def clean_endings(self) -> dict[str, str]:
        return dict(self.cleaned_data["endings"])

    @property
    def fields_shown(self) -> list[forms.BoundField]:
        return [self[name] for name in SHOWN]

    @property
    def fields_folded(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in SHOWN]

    @property
    def key_state(self) -> str:
        """See the function `key_state`."""
        return key_state(self.instance)


def key_state(endpoint: Endpoint) -> str:
    """Whether the key of an endpoint is available on this server.

    Returns 'set', 'missing' or 'refused' (by the operator); '' for an endpoint without a key.
    'elsewhere' with Redis: only the workers have keys. A test of the endpoint says what they find.
    """
    if not endpoint.key_env:
        return ""
    try:
        settings.MHB_ENDPOINT_ACCESS.key(endpoint.key_env, endpoint.url)
    except KeyMissing:
        if settings.ENV.redis_url:
            return "elsewhere"
        return "missing"
    except NotAllowed:
        return "refused"
    return "set"
