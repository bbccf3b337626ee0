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

from functools import partial

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import preset_name, read_presets, settings_in_force

MAX_TRIES = 5
PRESETS = read_presets(__file__)
LABELS = {
    "tries": _("Maximum tries"),
    "temperature": _("Temperature"),
    "top_p": _("Top p"),
    "max_tokens": _("Maximum tokens"),
    "judge_temperature": _("Judge temperature"),
    "report": _("Report for the answer judge"),
    "letters": _("Option letter counts"),
    "local": _("Text comparison as fallback"),
    "consistency": _("Consistency check"),
    "review_share": _("Share reviewed"),
    "review_seed": _("Seed of the draw for review"),
    "reviewers": _("Physicians per sample"),
}
settings = partial(settings_in_force, PRESETS)
name_of = partial(preset_name, PRESETS)
