"""How far the demo has loaded: a file in the data folder, which pages read while it exists.

The site opens before the demo's contents are there.
"""

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext_noop

FILE = "demo-is-loading"
# What the demo does, in order: of `load`, and of the benchmarks' modules beside it.
STEPS = (
    gettext_noop("Importing conversations and reports"),
    gettext_noop("Generating samples with the simulated generator"),
    gettext_noop("Reviewing samples as simulated physicians"),
    gettext_noop("Freezing a release and evaluating three simulated models"),
    gettext_noop("Freezing a second release and evaluating it"),
    gettext_noop("MedHallu: making hallucinated answers to hand-written questions"),
    gettext_noop("MedHallu: asking three simulated models which answers are hallucinated"),
    gettext_noop("ClinHallu: writing reference traces for questions about drawn images"),
    gettext_noop("ClinHallu: asking three simulated models that see"),
    gettext_noop("MedMistake: conversations of simulated patients with three simulated doctors"),
    gettext_noop("MedMistake: asking three simulated models whether they repeat the mistakes"),
    gettext_noop("MedHal: making statements from hand-written records"),
    gettext_noop("MedHal: asking three simulated models which statements are factual"),
)


@dataclass(frozen=True, slots=True)
class Loading:
    """The step that is being done, from 0 on."""

    step: int

    @property
    def label(self) -> str:
        return STEPS[self.step]

    @property
    def total(self) -> int:
        return len(STEPS)


def file() -> Path:
    """Where the progress is written. The file exists while the demo is loading."""
    folder: Path = settings.ENV.data_dir
    return folder / FILE


def write(label: str) -> None:
    """Tell pages that this step has begun. A text that is no step is left out."""
    if label in STEPS:
        file().write_text(str(STEPS.index(label)))


def read() -> Loading | None:
    """The step that is being done; None if no demo is loading here."""
    if not settings.MHB_EMBEDDED:
        return None
    try:
        step = file().read_text()
    except FileNotFoundError:
        return None
    if step.isdigit():
        return Loading(int(step))
    return Loading(0)
