from django.apps import AppConfig

from generation.commands import COMMANDS
from review.common.commands import register


class GenerationConfig(AppConfig):
    name = "generation"

    def ready(self) -> None:
        register(self.name, COMMANDS)
