"""The action that validates a judge."""

from typing import Annotated, Any

from evaluation.judges import services
from generation.management.command_line import SettingsOptions, given_settings
from review.common.commands import Action, Positional


class ValidateJudge(Action):
    """Send a share of a finished run's responses to physicians, to validate its judge."""

    run: Positional[int]
    options: Annotated[dict[str, Any], SettingsOptions(settings=services.ValidationSettings)]

    def perform(self) -> dict[str, Any]:
        validation = services.start_validation(self.run, **given_settings(self.options, services.ValidationSettings))
        return {
            "run": validation.run_id,
            "validation": validation.pk,
            "seed": validation.seed,
            "drawn": validation.items.count(),
        }
