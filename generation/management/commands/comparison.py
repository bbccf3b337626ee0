"""comparison NUMBER"""

from argparse import ArgumentParser
from typing import Any

from generation.comparisons import queries
from review.management.step_command import StepCommand
from review.rules.shown_values import shown

ARM = "arm=batch.arm batch=batch.pk prompts=batch.prompts samples approved approved_at_once=at_once stopped calls cost"


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
            "arms": [shown(arm, ARM) for arm in result.arms],
            **shown(result, "only_a only_b chance"),
        }
