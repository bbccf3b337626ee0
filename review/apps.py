from django.apps import AppConfig

from review.commands import COMMANDS
from review.common.commands import register


class ReviewConfig(AppConfig):
    name = "review"

    def ready(self) -> None:
        register(self.name, COMMANDS)
        import review.audit.accounts  # noqa: F401  # its receiver records the creation of accounts
