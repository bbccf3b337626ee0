"""The settings by which ClinHallu makes reference traces, in two named sets: the paper's and the released code's.

| setting | is |
|---|---|
| tries | how many candidates are asked for until one has a valid format (1 to 5) |
| temperature, top_p, max_tokens | of the generator |
| judge_temperature | of the judge |
| report | the judge of answers also gets a report on the image, written from it and from all its questions and answers |
| letters | of a choice, the right letter is a right answer, without asking the judge; another letter goes to the judge |
| local | where the judge's reply cannot be read, answers are compared as text |
| consistency | the judge also says whether the whole trace supports the true answer, without a conflicting conclusion (eq. 4) |
| review_share, review_seed | the share of samples of each data set and type of question that physicians review, and its lot |
| reviewers | `two` physicians a sample, or `one` |
| one_model | the judge may be the generator's model; otherwise such a launch is refused |
"""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, Preset

MAX_TRIES = 5

_PAPER: Mapping[str, Any] = {
    "tries": 1,
    "temperature": 0.7,
    "top_p": 0.9,
    "max_tokens": 4096,
    "judge_temperature": 0.01,
    "report": False,
    "letters": False,
    "local": False,
    "consistency": True,
    "review_share": 0.1,
    "review_seed": 0,
    "reviewers": "two",
    "one_model": False,
}
_RELEASED: Mapping[str, Any] = {
    **_PAPER,
    "tries": 3,
    "report": True,
    "letters": True,
    "local": True,
    "consistency": False,
}

PRESETS: tuple[Preset, ...] = (
    Preset(
        "paper",
        _("As in the paper"),
        _(
            "One trace per question. Kept if code finds three stages and an answer, and the judge finds the answer right and "
            "the trace consistent with it. Two physicians review a tenth."
        ),
        _PAPER,
    ),
    Preset(
        "released",
        _("As in the released code"),
        _(
            "Up to three traces until one has a valid format. The right letter counts as right; otherwise a judge decides, "
            "with a report on the image, and text comparison if its reply cannot be read. No consistency check. Two physicians "
            "review a tenth."
        ),
        _RELEASED,
    ),
)


def settings(draft: Draft) -> Mapping[str, Any]:
    """The values that a draft was launched with; the paper's where it has none."""
    return {**PRESETS[0].values, **draft.settings}


def name_of(draft: Draft) -> str:
    """The preset whose values these are; 'own' where a launch changed some."""
    values = settings(draft)
    return next((preset.name for preset in PRESETS if preset.values == values), "own")
