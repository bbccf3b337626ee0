"""MedHallu's settings and presets: ours, the paper's, the released code's, two for clusters, one author.

| setting | meaning |
|---|---|
| tries | how many tries are made before the fallback (1 to 5) |
| candidates | above 0: no tries; this many answers are kept, voted on and clustered |
| temperature | the generator's range, from which each answer's temperature is drawn evenly |
| top_p, max_tokens | of the generator |
| length | share of words by which an answer may differ from the true one; null: any length |
| order | which answer voters see first: `random` (drawn for each vote) or `truth-first` |
| reading | `strict`: a vote is exactly one choice; `contains-2`: a 2 anywhere means the second |
| vote_justification | voters see the hallucinated answer with its justification |
| vote_temperature, vote_max_tokens | of the voters; null: the endpoint's own |
| fooled | how many voters a candidate has to fool, or `majority` of them |
| entailment | a candidate that says the same as the true answer does not qualify |
| tau | the entailment score from which one text entails another |
| rewrites | how often a failed candidate of a try is rewritten and voted on again |
| steps | how many rounds of critique and revision precede the vote on a rewrite |
| regenerate | the generator writes the final version of a rewrite from the critic's revision |
| feedback | the next try sees the last candidate and what gave it away |
| fallback_entailed | a candidate that says the same as the true answer may become the fallback |
| truth | `source`: the true answer as the article has it; `reworded`: in the generator's words |
| stop_when_told | the batch stops if a probe's accuracy is surely higher; null: never |
| review_share | share of samples that physicians review; others are not sampled for review |
| reviewers | `one` physician per sample, or `two` as in MHB |

`paper` rewrites nothing: of its "maximum of five generation attempts" each candidate is one, also
one written from feedback.
"""

from functools import partial

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, preset_name, read_presets, settings_in_force

MAX_TRIES = 5
PRESETS = read_presets(__file__)
LABELS = {
    "tries": _("Maximum tries"),
    "candidates": _("Candidates per question"),
    "temperature": _("Temperature"),
    "top_p": _("Top p"),
    "max_tokens": _("Maximum tokens"),
    "length": _("Length tolerance"),
    "order": _("Order of the answers"),
    "reading": _("Reading of votes"),
    "vote_justification": _("Voters see the justification"),
    "vote_temperature": _("Temperature of votes"),
    "vote_max_tokens": _("Maximum tokens of a vote"),
    "fooled": _("Voters to fool"),
    "entailment": _("Entailment check"),
    "tau": _("Entailment threshold"),
    "rewrites": _("Rewrites of a failed candidate"),
    "steps": _("Revision rounds"),
    "regenerate": _("Generator writes the final version"),
    "feedback": _("Feedback to the next try"),
    "fallback_entailed": _("Fallback with the same meaning"),
    "truth": _("Wording of the true answer"),
    "stop_when_told": _("Probe accuracy that stops the batch"),
    "review_share": _("Share reviewed"),
    "reviewers": _("Physicians per sample"),
}
settings = partial(settings_in_force, PRESETS)


def truth_of(draft: Draft) -> str:
    """The true answer of a draft: in the generator's words, if it was reworded."""
    return str(draft.data.get("truth") or draft.record.content["answer"])


name_of = partial(preset_name, PRESETS)
