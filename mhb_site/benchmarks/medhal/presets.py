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
| reviewers | `two` physicians per statement, or `one` as in the paper |
"""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, Preset

_PAPER: Mapping[str, Any] = {
    "training_only": True,
    "seed": 0,
    "qa_filters": "none",
    "wrong_option": "any",
    "qa_context": "split",
    "qa_explanation": "wrong",
    "one_sentence": False,
    "pairs_a_note": 0,
    "summaries": "three",
    "summary_sentence": 100,
    "summary_last": True,
    "summary_explanation": "sentence",
    "filter": True,
    "filter_nli": True,
    "temperature": 0.0,
    "max_tokens": 512,
    "review_per_label": 25,
    "review_seed": 0,
    "reviewers": "two",
}
_RELEASED: Mapping[str, Any] = {
    **_PAPER,
    "qa_filters": "released",
    "qa_explanation": "right",
    "one_sentence": True,
    "summary_sentence": 0,
    "summary_last": False,
    "summary_explanation": "with-source",
    "filter_nli": False,
    "review_per_label": 0,
}

PRESETS: tuple[Preset, ...] = (
    Preset(
        "paper",
        _("As in the paper"),
        _(
            "One statement with the right option and one with a wrong one. Another note's value of the same category and "
            "concept. One sentence of at least 100 characters altered. A model filters all statements. 25 statements of each "
            "task and label, and 50 altered summaries, are reviewed, each by two physicians."
        ),
        _PAPER,
    ),
    Preset(
        "released",
        _("As in the released code"),
        _(
            "Questions with 'the above', 'except' or true and false are left out, as are statements of more than one sentence. "
            "Sentences of any length are altered. MedNLI is not filtered. No review."
        ),
        _RELEASED,
        prompts="released",
    ),
)
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


def settings(draft: Draft) -> Mapping[str, Any]:
    """The settings of a draft's batch; the paper's for those it does not set."""
    return {**_PAPER, **draft.settings}


def splits(values: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """The splits that records for generation may have, by record kind."""
    making = ("mcq", "note", "nli-entailment", "nli-neutral", "article")
    return dict.fromkeys(making, ("train",)) if values.get("training_only", True) else {}
