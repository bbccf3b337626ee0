"""The action that compares prompt sets."""

from typing import Any

from generation.comparisons import queries
from review.common.commands import Action, Positional
from review.rules.shown_fields import shown_values


class CompareArms(Action):
    """Compare the results of two prompt sets on the same records."""

    number: Positional[int]

    def perform(self) -> dict[str, Any]:
        comparison = queries.comparison(self.number)
        result = queries.compare_arms(comparison)
        arms = []
        for arm in result.arms:
            values = shown_values(arm)
            del values["failed"]
            arms.append({"approved_at_once": values.pop("at_once"), **values})
        return {
            "comparison": comparison.pk,
            "records": queries.paired_drafts(comparison).values("record").distinct().count(),
            "arms": arms,
            "only_a": result.only_a,
            "only_b": result.only_b,
            "chance": result.chance,
        }
