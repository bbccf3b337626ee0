"""The configurations in which MedHal is published (MHL-7), and its published counts."""

from django.utils.translation import gettext_noop as _

from generation.recipes.configuration import Configuration

# Table 2, after the filter; they add up to the full configuration.
STATEMENT_COUNTS = {"medmcqa": 278_021, "mednli": 7_488, "acn": 327_568, "medqa": 18_680, "sumpubmed": 195_339}
FULL, FILTERED, BALANCED = 827_096, 779_376, 469_025  # Table 4
LENGTH_FILTERED = {
    **STATEMENT_COUNTS,
    # No other source has contexts that long.
    "sumpubmed": STATEMENT_COUNTS["sumpubmed"] - (FULL - FILTERED),
}
TASK_OF = {"medmcqa": "qa", "medqa": "qa", "mednli": "nli", "acn": "ie", "sumpubmed": "summarization"}
# Table 4: the share of each task in the three configurations.
SHARES = {
    "summarization": (0.24, 0.19, 0.31),
    "ie": (0.40, 0.42, 0.31),
    "qa": (0.36, 0.38, 0.35),
    "nli": (0.01, 0.01, 0.02),
}
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
