from django.apps import AppConfig

from evaluation.commands import COMMANDS
from review.common.commands import register


class EvaluationConfig(AppConfig):
    name = "evaluation"

    def ready(self) -> None:
        register(self.name, COMMANDS)
