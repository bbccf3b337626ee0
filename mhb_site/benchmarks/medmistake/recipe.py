"""MedMistake's recipe: conversation, committee, mistakes, clusters, scenario, replication."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.recipe import ModelRole, Recipe
from mhb_site.benchmarks.medmistake import clustering, conversation, dimensions, lineage, presets, replication


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
    roles=read_declared(ModelRole, __file__, "roles.json"),  # the first is the one that writes the sample
    steps=(*conversation.STEPS, clustering.BARRIER, *replication.STEPS),
    sample=replication.sample,
    compared=replication.text_to_compare,
    presets=presets.PRESETS,
    setting_labels=presets.LABELS,
    choices=presets.CHOICES,
    lineage=lineage.lineage,
    analysis=lineage.analysis,
    shares=lineage.shares,
    prompt_faults=dimensions.faults,
    restart="carry_over",
    kept=kept,
    step_labels={
        "converse": _("Take the next turn of a conversation"),
        "judge_1": _("Score a conversation"),
        "extract": _("Extract the mistakes"),
        "write_1": _("Write a scenario"),
        "write_2": _("Write a better scenario"),
        "replicate_1": _("Answer a scenario"),
    },
)
