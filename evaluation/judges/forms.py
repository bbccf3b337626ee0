"""The form that starts a validation."""

from typing import Any

from evaluation import registry
from evaluation.judges.services import ValidationSettings
from evaluation.models import Run
from generation.jobs.forms import SettingsForm


class ValidationForm(SettingsForm):
    """How many responses physicians judge, and the seed of the draw."""

    settings_class = ValidationSettings

    def __init__(self, run: Run, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["n"].required = True  # an empty post draws nothing
        self.fields["n"].initial = registry.protocol(run.release.benchmark).validation_sample
