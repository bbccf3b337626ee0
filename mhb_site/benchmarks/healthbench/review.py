"""The case of a conversation, which is not reviewed here: its rubrics are already agreed on."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from review.rules.blocks import Dialogue, Turn
from review.rules.case_spec import CaseSpec
from review.rules.questions import Form
from review.rules.state_machine import Policy

SPEAKERS = {"user": _("User"), "assistant": _("Assistant")}


def conversation(content: Mapping[str, Any]) -> Dialogue:
    """The turns of a conversation, as models see them."""
    turns = tuple(Turn(SPEAKERS[turn["role"]], turn["content"]) for turn in content["turns"])
    return Dialogue(_("Conversation"), turns)


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one conversation, as models see it."""
    shown, policy = (conversation(sample.content),), Policy(primary=False, secondary=False)
    return CaseSpec.of(sample, "healthbench", lineage, version, blocks=shown, form=Form(()), policy=policy)
