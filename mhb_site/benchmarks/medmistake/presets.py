"""MedMistake's settings and presets: ours, the paper's, and two that change one setting of ours.

| setting | meaning |
|---|---|
| most_turns | the maximum number of turns, including the patient's |
| scale | the best score |
| low | the highest score that is a finding |
| pooling | whose scores count |
| dimensions_per_call | how many dimensions a judge scores in a call |
| judge_calls | maximum calls to a judge if one covers all dimensions; each further one needed adds one |
| cluster, distance, linkage | whether mistakes are merged, up to which distance, and how |
| harder | maximum number of harder variants if neither target repeats the mistake; 0: none |
| rewrites | maximum number of variants after one that gives the answer away |
| check | whether a variant gives the answer away: by `code` alone, or by a `model` too |
| unreplicated | what happens to a mistake that neither target repeats |
| review_share | share of scenarios that physicians review; the paper's is 299 of 3,390 |
| reviewers | the number of physicians per scenario |
"""

from collections.abc import Mapping
from functools import partial

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import read_presets, settings_in_force

PRESETS = read_presets(__file__)
LABELS = {
    "most_turns": _("Maximum turns"),
    "scale": _("Best score"),
    "low": _("Highest score that is a finding"),
    "pooling": _("Scores that count"),
    "dimensions_per_call": _("Dimensions per call"),
    "judge_calls": _("Maximum calls to a judge"),
    "cluster": _("Merging of mistakes"),
    "distance": _("Maximum merging distance"),
    "linkage": _("Linkage"),
    "harder": _("Maximum harder variants"),
    "rewrites": _("Maximum rewrites of a variant"),
    "check": _("Check for given-away answers"),
    "unreplicated": _("Mistakes that no target repeats"),
    "review_share": _("Share reviewed"),
    "reviewers": _("Physicians per sample"),
}
DEFAULTS = PRESETS[0].values
CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "pooling": ("either", "both", "mean"),
    "cluster": ("semantic", "none"),
    "linkage": ("average", "complete", "single"),
    "check": ("model", "code"),
    "unreplicated": ("drop", "keep"),
    "reviewers": ("one", "two"),
}
settings = partial(settings_in_force, PRESETS)
