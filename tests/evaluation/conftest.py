"""Make the fixtures of tests.engine available to every test in this folder."""

from tests.engine import manage, models, no_long_waits

__all__ = ["manage", "models", "no_long_waits"]
