"""Endpoints, their state, and their usage by day."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from generation.llm.errors import NotAllowed
from generation.llm.http.access import Access

if TYPE_CHECKING:
    from generation.llm.types import ModelSettings

# Name of an environment variable. Capitals only, so that a key pasted here by mistake is refused
# instead of stored.
ENV_NAME_PATTERN = r"^[A-Z_][A-Z0-9_]*$"
# The settings of an endpoint that people enter: on its page, in the API and in the command.
ENDPOINT_FIELDS = (
    *("name", "url", "model", "key_env", "temperature", "top_p", "max_tokens", "completion_tokens"),
    *("reasoning_effort", "extra_body", "family", "price_in", "price_out", "price_cached", "price_written"),
    *("concurrency", "rpm", "tpm", "timeout", "batches"),
    *(
        "default_sampling",
        "no_system_role",
        "alternating_roles",
        "prompt_cache_key",
        "context_tokens",
        "output_format",
        "reasoning_start",
        "reasoning_end",
        "endings",
    ),
)

EFFORT_PATTERN = r"[a-z][a-z_-]*"

# The settings that decide how a model answers; a launch keeps them for its job. Address, key,
# limits and prices are not among them, so that they can be corrected while a job is paused.
LAUNCH_SETTINGS = (
    *("temperature", "top_p", "default_sampling", "no_system_role", "alternating_roles"),
    *("max_tokens", "reasoning_effort", "extra_body"),
)

# Request fields that have a setting of their own or that the gateway depends on.
RESERVED_FIELDS = frozenset(
    {
        *("model", "messages", "input", "stream", "stream_options", "n", "response_format", "encoding_format", "tools"),
        *("functions", "temperature", "top_p", "max_tokens", "max_completion_tokens", "reasoning_effort"),
    }
)
_SECRET_PATTERN = re.compile(r"api[_-]?key|authorization|password|secret|access[_-]?token|bearer", re.IGNORECASE)
FAMILY_ALIASES = {"o": "gpt", "chatgpt": "gpt"}  # prefixes of model names that belong to another family
MAX_EXTRA_CHARS = 10_000  # of `extra_body`
MAX_ENDING = 40  # characters of a finish reason
LOWEST = dict.fromkeys(("price_in", "price_out", "price_cached", "price_written"), 0)
LOWEST |= dict.fromkeys(("concurrency", "rpm", "tpm"), 1)


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    """Queries on endpoints."""

    def usable(self) -> Self:
        """Those that new work may call, by name, with their state."""
        return self.exclude(url="").filter(disabled=False).select_related("state").order_by("name")


class Endpoint(models.Model):
    """A model at an OpenAI-compatible address.

    `key_env` names the environment variable; the key is never stored. `disabled`: no new work may
    use it; what runs goes on.
    """

    objects = EndpointQuerySet.as_manager()

    @property
    def is_usable(self) -> bool:
        """Whether new work may call it, as in `EndpointQuerySet.usable`."""
        return bool(self.url) and not self.disabled

    class OutputFormat(models.TextChoices):
        JSON_SCHEMA = "json_schema", _("JSON schema")
        JSON_OBJECT = "json_object", _("JSON object")
        TEXT = "text", _("text")

    name = models.SlugField(max_length=100, unique=True)
    # Not a URLField: that requires a dot in the host, and the host may be the name of a service
    # (``http://models:8010/v1``).
    url = models.CharField(max_length=500, validators=[RegexValidator(r"^https?://[^\s/@]+(/\S*)?$")])
    model = models.CharField(max_length=200)
    key_env = models.CharField(max_length=100, blank=True)
    temperature = models.FloatField(null=True, blank=True)
    top_p = models.FloatField(null=True, blank=True)
    max_tokens = models.PositiveIntegerField(null=True, blank=True)
    completion_tokens = models.BooleanField(default=False)  # the limit is sent as `max_completion_tokens`
    default_sampling = models.BooleanField(default=False, db_default=False)  # no temperature, no top_p
    no_system_role = models.BooleanField(default=False, db_default=False)
    alternating_roles = models.BooleanField(default=False, db_default=False)
    prompt_cache_key = models.BooleanField(default=False, db_default=False)  # it knows this field of requests
    reasoning_effort = models.CharField(max_length=20, blank=True)
    extra_body = models.JSONField(default=dict, blank=True)  # further fields of each chat request
    family = models.CharField(max_length=40, blank=True)  # set if the model's name does not tell: `model_family`
    price_in = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    price_out = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    # Of prompt tokens that the endpoint had in its cache; null: as other prompt tokens.
    price_cached = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    # Of those that it wrote into its cache; null: as other prompt tokens.
    price_written = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    context_tokens = models.PositiveIntegerField(null=True, blank=True)  # prompt and reply together
    context_found = models.PositiveIntegerField(null=True, editable=False)  # the same, as the endpoint tells it
    output_format = models.CharField(max_length=11, blank=True, choices=OutputFormat)  # "": learnt from its answers
    reasoning_start = models.CharField(max_length=100, blank=True)  # its own marks around reasoning
    reasoning_end = models.CharField(max_length=100, blank=True)
    endings = models.JSONField(default=dict, blank=True)  # unknown finish reason -> what it means: `provider_words`
    concurrency = models.PositiveSmallIntegerField(default=8)
    timeout = models.FloatField(default=120)
    rpm = models.PositiveIntegerField(null=True, blank=True)  # requests a minute; null: no limit
    tpm = models.PositiveIntegerField(null=True, blank=True)  # tokens a minute
    batches = models.BooleanField(default=False)  # whether it supports the batch protocol (files and batches)
    batch_discount = models.DecimalField(max_digits=4, decimal_places=3, default=Decimal("0.5"))  # factor on prices
    simulated = models.BooleanField(default=False)
    disabled = models.BooleanField(default=False, db_default=False)
    last_test = models.JSONField(null=True, blank=True, editable=False)  # see `endpoints.testing`
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(concurrency__gte=1), name="endpoint_concurrency_positive"),
            models.CheckConstraint(condition=Q(price_in__gte=0, price_out__gte=0), name="endpoint_prices_not_negative"),
            models.CheckConstraint(
                condition=Q(price_cached__isnull=True) | Q(price_cached__gte=0),
                name="endpoint_price_cached_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(price_written__isnull=True) | Q(price_written__gte=0),
                name="endpoint_price_written_not_negative",
            ),
            models.CheckConstraint(condition=Q(timeout__gt=0), name="endpoint_timeout_positive"),
            models.CheckConstraint(
                condition=(Q(rpm__isnull=True) | Q(rpm__gte=1)) & (Q(tpm__isnull=True) | Q(tpm__gte=1)),
                name="endpoint_rates_positive",
            ),
            models.CheckConstraint(
                condition=Q(batch_discount__gte=0, batch_discount__lte=1), name="endpoint_batch_discount_is_share"
            ),
        ]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Reject what no page, route or command may store.

        That is a key instead of the name of its variable, a variable or an address that the
        operator does not allow, and numbers that JSON cannot express. Raises ValidationError.
        """
        if self.key_env and not re.fullmatch(ENV_NAME_PATTERN, self.key_env):
            raise ValidationError(
                {
                    "key_env": _(
                        "Not a valid environment variable name. Use capital letters, digits and "
                        "underscores. Do not enter the key itself."
                    )
                }
            )
        _check_extra_body(self.extra_body)
        _check_endings(self.endings)
        if self.reasoning_start and not self.reasoning_end:
            raise ValidationError({"reasoning_end": _("Enter the mark at which reasoning ends, too.")})
        if self.reasoning_effort and not re.fullmatch(EFFORT_PATTERN, self.reasoning_effort):
            raise ValidationError({"reasoning_effort": _("Use lowercase letters, for example low, medium or high.")})
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValidationError({"top_p": _("Enter a number above 0 and up to 1.")})
        for name in ("temperature", "timeout"):
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValidationError({name: _("Enter a number.")})
        self._check_lowest_numbers()
        self.url = base_address(self.url)
        if mistake := address_mistake(self.url):
            raise ValidationError({"url": mistake})
        allowed: Access = settings.MHB_ENDPOINT_ACCESS
        try:
            allowed.check_url(self.url)
        except NotAllowed as error:
            message = _("Endpoints cannot use this address. %(detail)s") % {"detail": error.detail}
            raise ValidationError({"url": message}) from None
        try:
            allowed.check_key(self.key_env, self.url)
        except NotAllowed as error:
            # Its name is not said again: what was typed may be the key itself.
            detail = error.detail.removeprefix(f"Variable: {self.key_env}. ")
            message = _("Endpoints cannot use this variable. %(detail)s") % {"detail": detail}
            raise ValidationError({"key_env": message}) from None

    def _check_lowest_numbers(self) -> None:
        """Refuse what constraints refuse, too, in words that name the field."""
        for name, lowest in LOWEST.items():
            value = getattr(self, name)
            if isinstance(value, int | Decimal) and value < lowest:
                raise ValidationError({name: _("Enter a number of %(lowest)s or more.") % {"lowest": lowest}})
        if isinstance(self.timeout, int | float) and self.timeout <= 0:
            raise ValidationError({"timeout": _("Enter a number above 0.")})

    @property
    def model_family(self) -> str:
        """The model's family: as set, else the first letters of its name (`openai/gpt-4o`: gpt)."""
        return (self.family.strip() or derived_family(self.model)).casefold()

    @property
    def launch_settings(self) -> dict[str, Any]:
        """The settings that a launch keeps for its job, and the model they belong to."""
        return {"model": self.model, **{name: getattr(self, name) for name in LAUNCH_SETTINGS}}

    def with_launch_settings(self, launched: Mapping[str, Any]) -> "Endpoint":
        """Apply the settings that a launch kept, in memory; returns self.

        Do not save the result.
        """
        for name in LAUNCH_SETTINGS:
            if name in launched:
                setattr(self, name, launched[name])
        return self

    @property
    def batch_settings(self) -> "ModelSettings":
        """The settings with the prices of provider batches: `batch_discount` times the prices."""
        settings, factor = self.settings, self.batch_discount
        prices = ("price_in", "price_out", "price_cached", "price_written")
        known = {name: price for name in prices if (price := getattr(settings, name)) is not None}
        return replace(settings, **{name: price * factor for name, price in known.items()})

    @property
    def settings(self) -> "ModelSettings":
        """The settings that the gateway needs."""
        from generation.llm.types import ModelSettings

        values = {field.name: getattr(self, field.name) for field in fields(ModelSettings)}
        return ModelSettings(**{**values, "context_tokens": self.context_tokens or self.context_found})


_PATHS_OF_CALLS = ("/chat/completions", "/completions", "/responses", "/embeddings")


def base_address(url: str) -> str:
    """The base URL in an address as people copy it, without the path of a call."""
    if "?" in url or "#" in url:
        return url.strip()
    base = url.strip().rstrip("/")
    called = next((path for path in _PATHS_OF_CALLS if base.lower().endswith(path)), "")
    return base[: len(base) - len(called)].rstrip("/")


def address_mistake(url: str) -> Promise | str:
    """Why this cannot be a base URL, in one sentence; "" if it can."""
    if "?" in url or "#" in url:
        return _(
            "Enter the base URL without a query, everything from '?' or '#': it would be lost, or end up before the path of "
            "the call."
        )
    if urlsplit(url).path.lower().rstrip("/").endswith("/messages"):
        return _("This is the address of another protocol (messages). Enter the provider's OpenAI-compatible base URL.")
    return ""


def derived_family(model: str) -> str:
    """Derive the family from a model's name: its leading letters, or all of it if it has none."""
    name = model.strip().rsplit("/", 1)[-1].casefold()
    match = re.match(r"[^\W\d_]+", name)
    if match:
        letters = match[0]
    else:
        letters = name[:40]
    return FAMILY_ALIASES.get(letters, letters)


def _check_extra_body(extra: Any) -> None:
    """Raise ValidationError if `extra` must not be added to each request."""
    from review.rules.text import is_storable

    if not isinstance(extra, dict):
        raise ValidationError({"extra_body": _("Enter a JSON object: field names with their values.")})
    text = json.dumps(extra)
    if reserved := sorted(RESERVED_FIELDS & set(extra)):
        message = _("These fields cannot be set here: %(names)s.") % {"names": ", ".join(reserved)}
        raise ValidationError({"extra_body": message})
    if _SECRET_PATTERN.search(text):
        message = str(_("Do not enter keys or passwords here. Name the key's variable instead."))
        raise ValidationError({"extra_body": message})
    if len(text) > MAX_EXTRA_CHARS or not is_storable(extra):
        message = str(_("This JSON is too long, or contains a character that cannot be stored."))
        raise ValidationError({"extra_body": message})


def _check_endings(endings: Any) -> None:
    """Raise ValidationError unless these are meanings of endings that the table does not have."""
    from generation.llm.provider_words import DECISIONS, Ending, ending_of
    from review.rules.text import is_storable

    known = ", ".join(DECISIONS)
    is_valid = isinstance(endings, dict)
    for name, meaning in endings.items() if is_valid else ():
        if not 0 < len(name) <= MAX_ENDING or not is_storable(name) or meaning not in DECISIONS:
            is_valid = False
    if not is_valid:
        message = _("Enter a JSON object: finish reasons with their meaning. Meanings: %(known)s.")
        raise ValidationError({"endings": message % {"known": known}})
    if fixed := [name for name in endings if ending_of(name) is not Ending.UNKNOWN]:
        raise ValidationError({"endings": _("The meaning of this is known already: %(names)s.") % {"names": fixed[0]}})


class EndpointState(models.Model):
    """The state of an endpoint that all lanes share: until when it is blocked, and if it is down.

    `openings`: how many times in a row its failures have opened the circuit breaker. `supported`:
    the share of its concurrency that it was found to support.
    """

    endpoint = models.OneToOneField(Endpoint, on_delete=models.CASCADE, primary_key=True, related_name="state")
    blocked_until = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=64, blank=True)  # the class that blocked it
    detail = models.TextField(blank=True)
    openings = models.PositiveSmallIntegerField(default=0)
    down_since = models.DateTimeField(null=True, blank=True)
    supported = models.FloatField(default=1.0)


class CallTotals(models.Model):
    """Sums over lines of the ledger, updated in the transaction that writes a line.

    `calls` are HTTP attempts, `failed` those that ended in an error, `hits` replies that had
    already been paid for.
    """

    calls = models.PositiveIntegerField(default=0)
    hits = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    estimated = models.PositiveIntegerField(default=0)  # calls of which the cost is an upper estimate
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    tokens_reasoning = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)

    class Meta:
        abstract = True

    @property
    def share_cached(self) -> float:
        """The share of the input tokens that were read from a cache."""
        if self.tokens_in:
            return self.tokens_cached / self.tokens_in
        return 0.0


class EndpointDay(CallTotals):
    """Totals of an endpoint's calls that started on one day (UTC)."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="days", db_index=False)
    day = models.DateField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "day"], name="endpoint_day_once"),
            models.CheckConstraint(condition=Q(failed__lte=F("calls")), name="endpoint_day_failed_are_calls"),
        ]
