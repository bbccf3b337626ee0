"""The engines' fixtures for every test here."""

from tests.engine import manage, models, no_long_waits

__all__ = ["manage", "models", "no_long_waits"]
