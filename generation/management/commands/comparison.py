"""comparison NUMBER"""

from argparse import ArgumentParser
from typing import Any

from generation.comparisons import queries
from review.management.step_command import StepCommand
from review.rules.answers import shown_values


def _arm(arm: queries.Arm) -> dict[str, Any]:
    values = shown_values(arm)
    del values["failed"]
    return {"approved_at_once": values.pop("at_once"), **values}


class Command(StepCommand):
    help = "Compare the results of two prompt sets on the same records."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("number", type=int)

    def step(self, **options: Any) -> dict[str, Any]:
        comparison = queries.comparison(options["number"])
        result = queries.compare_arms(comparison)
        return {
            "comparison": comparison.pk,
            "records": queries.paired_drafts(comparison).values("record").distinct().count(),
            "arms": [_arm(arm) for arm in result.arms],
            "only_a": result.only_a,
            "only_b": result.only_b,
            "chance": result.chance,
        }
