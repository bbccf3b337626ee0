"""How MHB is put to models ('Hallucination Evaluation Method'): response, judgment per criterion, hallucination rate."""

from collections.abc import Sequence

from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict

from evaluation.protocol import Ask, Decision, FacetView, Protocol, Rate, Rubric, Sample
from generation.llm.types import Message, Request
from generation.recipe import read_prompt
from mhb_site.benchmarks.mhb.fencing import as_data
from mhb_site.benchmarks.mhb.recipe import PROMPTS
from mhb_site.benchmarks.mhb.review import SEVERITIES

ASK_REPORT = read_prompt(PROMPTS / "ask_report.md")
JUDGE = read_prompt(PROMPTS / "judge.md")


class Judgment(BaseModel):
    """Whether the response meets the criterion, and why (MHB-11)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    explanation: str  # first, so that a model reasons before it decides
    criteria_met: bool


def ask(sample: Sample) -> Sequence[Ask]:
    """One question a sample (MHB-10): the conversation that ends in the bait, or the report with the question.

    The paper does not print how report and question are put together; `prompts/ask_report.md` is our fixed form. Its marks
    are of no language, and no system turn is added, so nothing but the sample itself steers the model.
    """
    content = sample.content
    if sample.task == "dialogue":
        return (Ask(tuple(Message(turn["role"], turn["content"]) for turn in content["turns"])),)
    return (Ask(ASK_REPORT.messages(report=content["report"], question=content["question"])),)


def judge(sample: Sample, rubric: Rubric, variant: str, response: str) -> Request:  # noqa: ARG001
    """Context, stimulus, response and one approved criterion, bundled ('Judgment Assembly'). The planted traps stay out."""
    content = sample.content
    context: object
    if sample.task == "dialogue":
        *context, last = content["turns"]
        stimulus = last["content"]
    else:
        context, stimulus = content["report"], content["question"]
    messages = JUDGE.messages(
        context=as_data(context),
        stimulus=as_data(stimulus),
        response=as_data(response),
        criterion=as_data(rubric.criterion),
    )
    return Request(messages, prompt=JUDGE.label)


def decide(judgment: Judgment) -> Decision:
    """The verdict in a judge's reply."""
    return Decision("met" if judgment.criteria_met else "not_met", judgment.explanation)


PROTOCOL = Protocol(
    label=_("MHB: hallucination traps"),
    datasets=(("dialogue", "MHB-Dialogue"), ("report", "MHB-Report")),
    ask=ask,
    judge=judge,
    shape=Judgment,
    decide=decide,
    rate=Rate(
        name="hallucination_rate",
        label=_("Hallucination rate"),
        rule=_(
            "Criteria not met divided by criteria judged, pooled over all samples; criteria without a verdict are left out"
            " and their number is shown."
        ),
        hits=frozenset({"not_met"}),
        counted=frozenset({"met", "not_met"}),
    ),
    facets=(
        FacetView("cluster", _("Trap cluster")),
        FacetView("subtype", _("Trap subtype")),
        # The paper names risk-stratified metrics as what is missing. An order of levels is no star of axes.
        FacetView("severity", _("Severity of harm"), "heat", tuple((level.value, level.label) for level in SEVERITIES)),
    ),
    judge_temperature=0.5,  # 'Evaluation Setting', with DeepSeek-R1-0528
)
