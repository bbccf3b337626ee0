"""MedHallu's settings and presets: ours, the paper's, the released code's, and two for clusters.

| setting | meaning |
|---|---|
| tries | how many tries are made before the fallback (1 to 5) |
| candidates | above 0: no tries; this many answers are kept, voted on and clustered (MHU-8) |
| temperature | the generator's range, from which each answer's temperature is drawn evenly |
| top_p, max_tokens | of the generator |
| length | share of words by which an answer may differ from the true one; null: any length |
| order | which answer voters see first: `random` (drawn for each vote) or `truth-first` |
| reading | `strict`: a vote is exactly one choice; `contains-2`: a 2 anywhere means the second |
| vote_justification | voters see the hallucinated answer with its justification |
| vote_temperature, vote_max_tokens | of the voters; null: the endpoint's own |
| fooled | how many voters a candidate has to fool |
| entailment | a candidate that says the same as the true answer does not qualify |
| tau | the entailment score from which one text entails another |
| rewrites | how often a failed candidate of a try is rewritten and voted on again |
| steps | how many rounds of critique and revision precede the vote on a rewrite |
| regenerate | the generator writes the final version of a rewrite from the critic's revision |
| feedback | the next try sees the last candidate and what gave it away |
| fallback_entailed | a candidate that says the same as the true answer may become the fallback |
| review_share | share of samples that physicians review; others are not sampled for review |
| reviewers | `one` physician per sample, or `two` as in MHB |
"""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, Preset

MAX_TRIES = 5

_PAPER: Mapping[str, Any] = {
    "tries": MAX_TRIES,
    "candidates": 0,
    "temperature": [0.3, 0.7],
    "top_p": 0.95,
    "max_tokens": 512,
    "length": 0.1,
    "order": "random",
    "reading": "strict",
    "vote_justification": False,
    "vote_temperature": 0.3,
    "vote_max_tokens": None,
    "fooled": 1,
    "entailment": True,
    "tau": 0.75,
    # "A maximum of five generation attempts": each candidate is an attempt, also one written from
    # feedback.
    "rewrites": 0,
    "steps": 1,
    "regenerate": False,
    "feedback": True,
    "fallback_entailed": True,
    "review_share": 0.0,
    "reviewers": "one",
}
_OURS: Mapping[str, Any] = {**_PAPER, "rewrites": 1, "fallback_entailed": False, "review_share": 0.2}
_RELEASED: Mapping[str, Any] = {
    **_PAPER,
    "temperature": [0.8, 0.8],
    "length": None,
    "order": "truth-first",
    "reading": "contains-2",
    "vote_justification": True,
    "vote_max_tokens": 4,
    "entailment": False,
    "rewrites": 1,
    "steps": 3,
    "regenerate": True,
    "feedback": False,
}

PRESETS: tuple[Preset, ...] = (
    Preset(
        "ours",
        _("MHB default"),
        _(
            "The paper's method, with a rewrite in each of five tries. An answer with the same meaning "
            "as the true answer is never used as the fallback. One physician reviews a fifth of the "
            "samples."
        ),
        _OURS,
    ),
    Preset(
        "paper",
        _("As in the paper"),
        _(
            "Temperature 0.3 to 0.7. Three voters. The lower of the two entailment scores is below 0.75. "
            "At most five candidates, each after the first written from feedback. The answer most "
            "similar to the true answer is the fallback. No review."
        ),
        _PAPER,
    ),
    Preset(
        "released",
        _("As in the released code"),
        _(
            "Temperature 0.8. The true answer is always shown first. Any reply that contains a 2 is a "
            "vote for the second answer. No entailment check, any length, three revision steps, no "
            "review."
        ),
        _RELEASED,
        prompts="released",
    ),
    Preset(
        "clusters",
        _("Candidate clusters"),
        _(
            "50 answers per question. All are kept, voted on and clustered with the true answer by "
            "entailment in both directions at 0.75. The best answer becomes the sample."
        ),
        {**_OURS, "candidates": 50},
    ),
    Preset(
        "clusters-12",
        _("Candidate clusters (12)"),
        _("Like 'Candidate clusters', but with 12 answers per question. Use it when 50 would cost too much."),
        {**_OURS, "candidates": 12},
    ),
)


def settings(draft: Draft) -> Mapping[str, Any]:
    """The settings of a draft's batch; our defaults for those it does not set."""
    return {**PRESETS[0].values, **draft.settings}


def name_of(draft: Draft) -> str:
    """The preset with exactly these values; 'own' if the launch changed some."""
    values = settings(draft)
    return next((preset.name for preset in PRESETS if preset.values == values), "own")
