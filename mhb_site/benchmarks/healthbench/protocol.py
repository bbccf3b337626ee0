"""The evaluation protocol of HealthBench and its score (Arora et al. 2025, section 3)."""

from collections.abc import Sequence
from pathlib import Path

from django.utils.translation import gettext_noop as _

from evaluation import policies
from evaluation.protocol import Ask, DataSet, Decision, FacetView, Protocol, Rate, Rubric, Sample
from generation.llm.types import Message, Request
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import ReplyShape
from mhb_site.benchmarks.healthbench.review import conversation
from mhb_site.benchmarks.healthbench.score import PointsReached
from review.rules.blocks import Block, Text

JUDGE = read_prompt(Path(__file__).parent / "prompts" / "judge.md")


class Judgment(ReplyShape):
    """Whether the response meets the criterion, and why."""

    explanation: str  # first, so that a model reasons before it decides
    criteria_met: bool


def ask(sample: Sample, seed: int) -> Sequence[Ask]:  # noqa: ARG001
    """The published conversation, unchanged."""
    turns = sample.content["turns"]
    return (Ask(tuple(Message(turn["role"], turn["content"]) for turn in turns), prompt="healthbench/dialogue@1"),)


def judge(sample: Sample, rubric: Rubric, variant: str, response: str) -> Request:  # noqa: ARG001
    """The request for a verdict on one criterion, without its points."""
    turns = sample.content["turns"]
    return JUDGE.request({"conversation": turns, "response": response, "criterion": rubric.criterion})


def judged_page(sample: Sample, rubrics: Sequence[Rubric], variant: str, response: str) -> Sequence[Block]:  # noqa: ARG001
    """What a judge is given, for physicians: the conversation, the response and the rule."""
    rule = Text(_("The judge's rule"), JUDGE.section("How to decide"), "rule")
    return conversation(sample.content), Text(_("The answer to judge"), response), rule


def decide(judgment: Judgment) -> Decision:
    """The verdict in a judge's reply."""
    if judgment.criteria_met:
        return Decision("met", judgment.explanation)
    return Decision("not_met", judgment.explanation)


MET, DECIDED = {"met": 1}, {"met": 1, "not_met": 1}

PROTOCOL = Protocol(
    label=_("HealthBench: conversations with rubrics"),
    datasets=(DataSet("dialogue", "HealthBench", "dialogue"),),
    ask=ask,
    judge=judge,
    shape=Judgment,
    decide=decide,
    rates=(
        Rate(
            name="healthbench_score",
            label=_("HealthBench score"),
            rule=_(
                "Mean over samples of the points of the criteria met divided by all positive points, cut off at 0 and 1. "
                "Points may be negative. Samples with a criterion without a verdict are excluded."
            ),
            hits=MET,
            counted=DECIDED,
            percent=False,
            unit="sample",
            score=PointsReached(),
        ),
        Rate(
            name="criteria_met",
            label=_("Criteria met"),
            rule=_(
                "Criteria met divided by criteria judged, regardless of their points. Criteria with negative points "
                "are included."
            ),
            hits=MET,
            counted=DECIDED,
        ),
    ),
    facets=(FacetView("theme", _("Theme"), "heat"),),
    wrong=frozenset({"not_met"}),
    judged_page=judged_page,
    policies=policies.EVERY,
)
