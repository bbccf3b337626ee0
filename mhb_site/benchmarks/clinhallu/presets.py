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

from generation.recipes.recipe import preset_name, read_presets, settings_in_force

MAX_TRIES = 5
PRESETS = read_presets(__file__)
settings = partial(settings_in_force, PRESETS)
name_of = partial(preset_name, PRESETS)
