"""ClinHallu's settings and presets: the paper's and the released code's.

| setting | meaning |
|---|---|
| tries | how many candidates are requested until one has a valid format (1 to 5) |
| temperature, top_p, max_tokens | of the generator |
| judge_temperature | of the judge |
| report | the answer judge gets a report, written from the image and its questions and answers |
| letters | the right option letter counts as right; any other letter goes to the judge |
| local | if the judge's reply cannot be read, answers are compared as text |
| consistency | the judge checks that the trace supports the true answer, without conflict (eq. 4) |
| review_share | share of samples of each data set and question type that physicians review |
| review_seed | seed of the draw for review |
| reviewers | `two` physicians per sample, or `one` |
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
    """The settings of a draft's batch; the paper's for those it does not set."""
    return {**PRESETS[0].values, **draft.settings}


def name_of(draft: Draft) -> str:
    """The preset with exactly these values; 'own' if the launch changed some."""
    values = settings(draft)
    return next((preset.name for preset in PRESETS if preset.values == values), "own")
