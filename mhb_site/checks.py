"""Checks of the settings by `manage.py check --deploy`."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register


@register(deploy=True)
def check_proxies(**_: Any) -> list[CheckMessage]:
    """Warn if nothing stands between gunicorn and slow clients."""
    if settings.MHB_EMBEDDED or settings.MHB_TRUSTED_PROXIES:
        return []
    hint = "Put a proxy that buffers in front (docs/operations.md), and set MHB_TRUSTED_PROXIES."
    return [Warning("gunicorn on an open port is stopped by a handful of slow clients.", hint=hint, id="mhb.W001")]
