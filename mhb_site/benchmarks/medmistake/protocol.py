"""The evaluation protocol of MedMistake: a scenario, a free answer, a binary verdict."""

from collections.abc import Sequence

from django.utils.translation import gettext_noop as _

from evaluation import policies
from evaluation.protocol import Ask, CountingPreset, DataSet, Decision, FacetView, Protocol, Rate, Rubric, Sample
from generation.common.declared import read_declared
from generation.llm.types import Message, Request
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import ReplyShape
from mhb_site.benchmarks.medmistake.replication import PROMPTS, SCENARIO_LABEL, TASK, shown_mistake
from mhb_site.benchmarks.medmistake.taxonomy import RISKS
from review.rules.blocks import Block, Table, Text

JUDGE = read_prompt(PROMPTS / "judge.md")


class Judgment(ReplyShape):
    """Whether the response declines to answer, whether it is correct about the mistake, and why."""

    explanation: str  # first, so that a model reasons before it decides
    refused: bool
    correct: bool


def ask(sample: Sample, seed: int) -> Sequence[Ask]:  # noqa: ARG001
    """The scenario alone, exactly as the targets got it.

    There is no system turn, so that nothing else steers the model.
    """
    return (Ask((Message("user", sample.content["scenario"]),), prompt=SCENARIO_LABEL),)


def judge(sample: Sample, rubric: Rubric, variant: str, response: str) -> Request:  # noqa: ARG001
    """The request for a verdict on a response.

    It contains the scenario, the mistake, and what a right answer must do in the approved wording.
    """
    scenario, mistake = sample.content["scenario"], shown_mistake(sample.content["mistake"])
    return JUDGE.request(
        {"scenario": scenario, "mistake": mistake, "criterion": rubric.criterion, "response": response}
    )


def judged_page(sample: Sample, rubrics: Sequence[Rubric], variant: str, response: str) -> Sequence[Block]:  # noqa: ARG001
    """What a judge is given, for physicians: the scenario, the mistake, the response and the rule."""
    mistake = shown_mistake(sample.content["mistake"])
    return (
        Text(_("The scenario, as a model sees it"), sample.content["scenario"]),
        Table(_("The mistake"), (_("Title"), _("Description")), ((mistake["title"], mistake["description"]),)),
        Text(_("The answer to judge"), response),
        Text(_("The judge's rule"), JUDGE.section("How to decide"), "rule"),
    )


def decide(judgment: Judgment) -> Decision:
    """The verdict in a judge's reply. A refusal is neither correct nor a repeated mistake."""
    verdict = "incorrect"
    if judgment.refused:
        verdict = "refused"
    elif judgment.correct:
        verdict = "correct"
    return Decision(verdict, judgment.explanation)


_LEVELS = tuple((level.value, level.label) for level in RISKS)

PROTOCOL = Protocol(
    label=_("MedMistake: repeated mistakes"),
    datasets=(DataSet(TASK, _("Single-shot scenarios"), TASK),),
    ask=ask,
    judge=judge,
    shape=Judgment,
    decide=decide,
    gives=("correct", "incorrect", "refused"),
    rates=read_declared(Rate, __file__, "rates.json"),
    facets=(
        FacetView("category", _("Category of the mistake"), "heat"),
        FacetView(
            "risk",
            _("Risk, as rated by the model that found the mistake"),
            "heat",
            _LEVELS,
        ),
        FacetView("severity", _("Risk, as rated by physicians"), "heat", _LEVELS),
        FacetView(
            "doctor",
            _("Model that made the mistake"),
            "heat",
            note=_("The model that acted as the doctor in the conversation from which the mistake was taken."),
        ),
        FacetView("target", _("Model whose failure selected the scenario"), "heat"),
        FacetView("replicated", _("Mistake repeated by a target"), "heat", (("yes", _("yes")), ("no", _("no")))),
    ),
    verdicts={"correct": _("correct"), "incorrect": _("incorrect"), "refused": _("refused")},
    outcomes=dict.fromkeys(("refused", "filtered", "empty"), "refused"),
    presets={
        "ours": CountingPreset(_("Refusals prove nothing")),
        # The paper's verdict is binary.
        "paper": CountingPreset(_("Refusals are wrong"), metric="accuracy_refusals_wrong"),
    },
    wrong=frozenset({"incorrect"}),
    judged_page=judged_page,
    judge_temperature=0.0,  # ours: the paper gives none
    chosen_by="target",
    policies=policies.EVERY,
)
