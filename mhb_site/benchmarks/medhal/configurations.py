"""The configurations in which MedHal is published."""

from django.utils.translation import gettext_noop as _

from generation.recipes.configuration import Configuration

MAX_CHARACTERS = 30_000
BALANCED_TASKS = ("qa", "ie", "summarization")  # NLI has too few to be balanced
MAX_PER_TASK = 150_000  # 'approximately 150,000' of each
_TEXTS = ("context", "statement")

CONFIGURATIONS = (
    Configuration("full", _("Full"), _("All statements.")),
    Configuration(
        "lf",
        _("Length-filtered"),
        _("Statements whose context and statement have together fewer than 30,000 characters."),
        below=MAX_CHARACTERS,
        texts=_TEXTS,
    ),
    Configuration(
        "lf-bal",
        _("Length-filtered and balanced"),
        _(
            "Statements whose context and statement have together fewer than 30,000 characters; questions, information "
            "extraction and summaries are cut to the smallest of the three tasks, and to 150,000 at most. Each task has as "
            "many factual as non-factual statements."
        ),
        below=MAX_CHARACTERS,
        texts=_TEXTS,
        balanced=BALANCED_TASKS,
        even_field="label",
        max_group_size=MAX_PER_TASK,
    ),
)
