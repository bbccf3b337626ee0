"""Endpoints, their state, and their usage by day."""

import math
import re
from dataclasses import fields, replace
from decimal import Decimal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from generation.llm.errors import NotAllowed
from generation.llm.http.access import Access
from generation.llm.types import ModelSettings

# An environment variable's name. Capitals only: a key that was pasted in its place by mistake is refused, not stored.
VARIABLE = r"^[A-Z_][A-Z0-9_]*$"
# What people say of an endpoint, on its page as in the API and the command.
ENDPOINT_FIELDS = (
    *("name", "url", "model", "key_env", "temperature", "max_tokens", "price_in", "price_out"),
    *("concurrency", "rpm", "tpm", "timeout", "batches"),
)


class Endpoint(models.Model):
    """A model at an OpenAI-compatible address. `key_env` names the environment variable; the key is never stored."""

    name = models.SlugField(max_length=100, unique=True)
    # No URLField: it wants a dot in the host, and a model's host may be a service's name (``http://models:8010/v1``).
    url = models.CharField(max_length=500, validators=[RegexValidator(r"^https?://[^\s/@]+(/\S*)?$")])
    model = models.CharField(max_length=200)
    key_env = models.CharField(max_length=100, blank=True)
    temperature = models.FloatField(null=True, blank=True)
    max_tokens = models.PositiveIntegerField(null=True, blank=True)
    price_in = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    price_out = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    concurrency = models.PositiveSmallIntegerField(default=8)
    timeout = models.FloatField(default=120)
    rpm = models.PositiveIntegerField(null=True, blank=True)  # requests a minute; null: no limit
    tpm = models.PositiveIntegerField(null=True, blank=True)  # tokens a minute
    batches = models.BooleanField(default=False)  # it speaks the batch protocol (files and batches)
    batch_discount = models.DecimalField(max_digits=4, decimal_places=3, default=Decimal("0.5"))  # of the prices, there
    simulated = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(concurrency__gte=1), name="endpoint_concurrency_positive"),
            models.CheckConstraint(condition=Q(price_in__gte=0, price_out__gte=0), name="endpoint_prices_not_negative"),
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
        """What no page, route or command may store.

        A key in place of its variable's name; a variable or an address that the operator does not allow; numbers that JSON
        does not have.
        """
        if self.key_env and not re.fullmatch(VARIABLE, self.key_env):
            raise ValidationError(
                {
                    "key_env": _(
                        "Not a valid environment variable name. Use capital letters, digits and "
                        "underscores. Do not enter the key itself."
                    )
                }
            )
        for name in ("temperature", "timeout"):
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValidationError({name: _("Enter a number.")})
        allowed: Access = settings.MHB_ENDPOINT_ACCESS
        try:
            allowed.check_url(self.url)
        except NotAllowed as error:
            told = _("Endpoints cannot use this address. %(detail)s") % {"detail": error.detail}
            raise ValidationError({"url": told}) from None
        try:
            allowed.check_key(self.key_env, self.url)
        except NotAllowed as error:
            told = _("Endpoints cannot use this variable. %(detail)s") % {"detail": error.detail}
            raise ValidationError({"key_env": told}) from None

    @property
    def batch_settings(self) -> ModelSettings:
        """The same at the prices of what is asked in a provider's batch: `batch_discount` times the prices."""
        settings, factor = self.settings, self.batch_discount
        return replace(settings, price_in=settings.price_in * factor, price_out=settings.price_out * factor)

    @property
    def settings(self) -> ModelSettings:
        """What the gateway needs to know."""
        return ModelSettings(**{each.name: getattr(self, each.name) for each in fields(ModelSettings)})


class EndpointState(models.Model):
    """What the lanes know together of an endpoint: how long it is to be left alone, and why; whether it is down.

    `openings`: the pauses in a row that its failures have cost; `bears`: the share of its concurrency that it was found
    to bear.
    """

    endpoint = models.OneToOneField(Endpoint, on_delete=models.CASCADE, primary_key=True, related_name="state")
    blocked_until = models.DateTimeField(null=True, blank=True)
    because = models.CharField(max_length=64, blank=True)
    detail = models.TextField(blank=True)
    openings = models.PositiveSmallIntegerField(default=0)
    down_since = models.DateTimeField(null=True, blank=True)
    bears = models.FloatField(default=1.0)


class EndpointDay(models.Model):
    """What the calls of an endpoint that began on one day (UTC) came to; kept in the transaction that writes the ledger."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="days")
    day = models.DateField()
    calls = models.PositiveIntegerField(default=0)
    hits = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    tokens_reasoning = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "day"], name="endpoint_day_once"),
            models.CheckConstraint(condition=Q(failed__lte=F("calls")), name="endpoint_day_failed_are_calls"),
        ]
