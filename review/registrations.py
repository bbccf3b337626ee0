"""What apps add to the registries of the apps below them: `<app>/registered.py`.

It is imported when a registry is first read, not in `AppConfig.ready`: most commands read none, and
would begin by importing every service.
"""

from functools import cache

from django.utils.module_loading import autodiscover_modules


@cache
def load() -> None:
    """Import each app's `registered`, in the order of the apps."""
    autodiscover_modules("registered")
