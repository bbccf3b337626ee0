"""Validators of benchmark names in requests."""

from django.utils.translation import gettext as _
from rest_framework import serializers

from generation.recipes import registry


def known_benchmark(name: str) -> None:
    """Raise ValidationError unless there is a benchmark with this name."""
    if name not in registry.names():
        raise serializers.ValidationError(
            _("There is no benchmark with this name. Available: %(names)s") % {"names": ", ".join(registry.names())}
        )
