"""MedMistake's recipe: conversation, committee, mistakes, clusters, scenario, replication."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Preset, Recipe
from mhb_site.benchmarks.medmistake import clustering, conversation, lineage, replication

SETTINGS: Mapping[str, Any] = {**conversation.SETTINGS, **clustering.SETTINGS, **replication.SETTINGS}

PRESETS = (
    Preset(
        "ours",
        _("MHB default"),
        _(
            "At most 24 turns. Two judges score 40 dimensions from 1 to 4; a score of 3 or less from either is a finding. "
            "The same mistake in several conversations is merged. Physicians review every scenario."
        ),
        SETTINGS,
    ),
    Preset(
        "paper",
        _("As in the paper"),
        _("Like the default, with one harder variant for mistakes that no target repeats, and 299 of 3,390 reviewed."),
        {**SETTINGS, **replication.PAPER_SETTINGS},
    ),
    Preset(
        "within",
        _("Merge within conversations only"),
        _(
            "Like the default, but mistakes from different conversations are not merged, as with the paper's prompt alone."
        ),
        {**SETTINGS, "cluster": "none"},
    ),
    Preset(
        "five",
        _("Scores from 1 to 5"),
        _("Like the default, with five scores instead of four."),
        {**SETTINGS, "scale": 5},
    ),
)


def kept(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data that the next version of a scenario keeps: everything up to the mistake."""
    later = ("attempts", "chosen")
    return {name: value for name, value in data.items() if name not in later}


RECIPE = Recipe(
    label=_("MedMistake: repeated mistakes"),
    intended=(
        "For measuring whether models repeat mistakes that models have made in conversations with "
        "patients. The scenarios were chosen because a model failed them; what they say is not wrong on "
        "purpose."
    ),
    kinds=replication.GENERATED | {replication.PUBLISHED},
    # The engine takes the first role as the one that writes the sample.
    roles=(replication.ROLES[0], *conversation.ROLES, *clustering.ROLES, *replication.ROLES[1:]),
    steps=(*conversation.STEPS, clustering.BARRIER, *replication.STEPS),
    sample=replication.sample,
    compared=replication.text_to_compare,
    presets=PRESETS,
    choices={**conversation.CHOICES, **clustering.CHOICES, **replication.CHOICES},
    lineage=lineage.lineage,
    analysis=lineage.analysis,
    restart="carry_over",
    kept=kept,
)
