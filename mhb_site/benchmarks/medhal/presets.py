"""MedHal's settings and presets: the paper's and the released code's.

| setting | meaning |
|---|---|
| training_only | only records of the training split are accepted |
| seed | draws the wrong option, the other value and the sentence to alter |
| qa_filters | questions left out: `none`, by the `released` rules, or by `stricter` ones |
| wrong_option | `any` wrong option, or the one `similar` in length to the right one |
| qa_context | text before a question: `split` off as its context, or `none`: part of it |
| qa_explanation | the data set's explanation goes with the `wrong` or the `right` statement |
| one_sentence | drop statements of questions that are not exactly one sentence |
| pairs_a_note | maximum number of pairs per clinical note; 0: one for every extraction |
| summaries | `three` pairs per document (text and each abstract, both abstracts), or `one` |
| summary_sentence | minimum number of characters of the altered sentence |
| summary_last | the last sentence of a summary may be altered, too |
| summary_explanation | of an altered summary: the original `sentence`, or that `with-source` before it |
| filter | a model judges each statement; pairs are kept if it agrees with both labels |
| filter_nli | filter MedNLI, too, whose labels are physicians' |
| temperature, max_tokens | of the model that writes statements |
| review_per_label | statements per task and label for review, twice as many altered summaries; 0: none |
| review_seed | seed of the draw for review |
| review_batches | batches with the same seed and number that share a draw, such as MedQA's and MedMCQA's |
| reviewers | `two` physicians per statement, or `one` as in the paper |
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import preset_name, read_presets, settings_in_force

PRESETS = read_presets(__file__)
LABELS = {
    "training_only": _("Training split only"),
    "seed": _("Seed"),
    "qa_filters": _("Questions left out"),
    "wrong_option": _("Wrong option"),
    "qa_context": _("Text before a question"),
    "qa_explanation": _("Statement with the explanation"),
    "one_sentence": _("One sentence only"),
    "pairs_a_note": _("Maximum pairs per note"),
    "summaries": _("Pairs per document"),
    "summary_sentence": _("Minimum length of the altered sentence"),
    "summary_last": _("Last sentence may be altered"),
    "summary_explanation": _("Explanation of an altered summary"),
    "filter": _("Model filter"),
    "filter_nli": _("Model filter for MedNLI"),
    "temperature": _("Temperature"),
    "max_tokens": _("Maximum tokens"),
    "review_per_label": _("Reviewed per task and label"),
    "review_seed": _("Seed of the draw for review"),
    "review_batches": _("Batches that share the draw for review"),
    "reviewers": _("Physicians per sample"),
}
settings = partial(settings_in_force, PRESETS)
name_of = partial(preset_name, PRESETS)
# Words that a launch may give besides those of the presets.
CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "qa_filters": ("none", "released", "stricter"),
    "wrong_option": ("any", "similar"),
    "qa_context": ("split", "none"),
    "qa_explanation": ("wrong", "right"),
    "summaries": ("three", "one"),
    "summary_explanation": ("sentence", "with-source"),
    "reviewers": (_("two"), _("one")),
}


def splits(values: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """The splits that records for generation may have, by record kind."""
    making = ("mcq", "note", "nli-entailment", "nli-neutral", "article")
    if values.get("training_only", True):
        return dict.fromkeys(making, ("train",))
    return {}
