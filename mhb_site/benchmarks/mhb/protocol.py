"""The evaluation protocol of MHB: response, judgment per criterion, hallucination rate.

The paper calls it the 'Hallucination Evaluation Method'.
"""

from collections.abc import Sequence

from django.utils.translation import gettext_noop as _

from evaluation import policies
from evaluation.protocol import (
    Ask,
    DataSet,
    Decision,
    FacetView,
    Protocol,
    Rate,
    Rubric,
    Sample,
    SampleJudging,
)
from generation.common.declared import read_declared
from generation.llm.types import Message, Request
from generation.recipes.prompts import read_prompt
from mhb_site.benchmarks.mhb import judging
from mhb_site.benchmarks.mhb.judging import JUDGE as JUDGE
from mhb_site.benchmarks.mhb.judging import PROMPTS, Judgments
from mhb_site.benchmarks.mhb.judging import Judgment as Judgment
from mhb_site.benchmarks.mhb.review import FORM, RUBRIC_FORM, model_view
from review.rules.blocks import Block, Table, Text

ASK_REPORT = read_prompt(PROMPTS / "ask_report.md")
DIALOGUE = "mhb/dialogue@1"  # the conversation is sent as it is, without a prompt file


def ask(sample: Sample, seed: int) -> Sequence[Ask]:  # noqa: ARG001
    """The one question of a sample.

    It is the conversation that ends in the bait, or the report with its question. The paper does
    not print how report and question are combined; `prompts/ask_report.md` is our fixed form. Its
    delimiters belong to no language and no system turn is added, so that only the sample steers the
    model.
    """
    content = sample.content
    if sample.task == "dialogue":
        return (Ask(tuple(Message(turn["role"], turn["content"]) for turn in content["turns"]), prompt=DIALOGUE),)
    return (Ask.of(ASK_REPORT.request({}, {"report": content["report"], "question": content["question"]})),)


def judge(sample: Sample, rubric: Rubric, variant: str, response: str) -> Request:  # noqa: ARG001
    """The request for a verdict on one approved criterion (the paper's 'Judgment Assembly')."""
    return judging.judge_one(sample.content, rubric.criterion, rubric.traps, response)


def judge_all(sample: Sample, rubrics: Sequence[Rubric], variant: str, response: str) -> Request:  # noqa: ARG001
    """The request for verdicts on all criteria of a sample at once, each with a key of its own."""
    criteria = [{"key": rubric.key, "criterion": rubric.criterion, "traps": list(rubric.traps)} for rubric in rubrics]
    return judging.judge_all(sample.content, criteria, response)


def judged_page(sample: Sample, rubrics: Sequence[Rubric], variant: str, response: str) -> Sequence[Block]:  # noqa: ARG001
    """What a judge is given, for physicians: the sample, the traps of these criteria, response, rule."""
    content = sample.content
    codes = set[str]().union(*(rubric.traps for rubric in rubrics))
    rows = []
    for trap in content.get("traps", ()):
        if trap["code"] in codes:
            rows.append((trap["name"], trap.get("words", ""), trap["false"], trap["why"]))
    blocks = [*model_view(content), Text(_("The answer to judge"), response)]
    if rows:  # of a control nothing was planted
        columns = (_("Trap"), _("Words"), _("What is false"), _("Why it is false"))
        blocks += [
            Table(_("Traps"), columns, tuple(rows), tone="trap"),
            Text(_("The judge's rule"), RUBRIC_FORM, "rule"),
        ]
    return [*blocks, Text(_("The judge's rule for deciding"), judging.deciding_rule(), "rule")]


def decide(judgment: Judgment) -> Decision:
    """The verdict in a judge's reply on one criterion."""
    if judgment.criteria_met:
        return Decision("met", judgment.explanation)
    return Decision("not_met", judgment.explanation)


def decide_all(judgments: Judgments) -> Sequence[tuple[str, Decision]]:
    """The verdicts in a judge's reply on a whole sample."""
    return [(judgment.key, decide(judgment)) for judgment in judgments.judgments]


PROTOCOL = Protocol(
    label=_("MHB: hallucination traps"),
    datasets=(DataSet("dialogue", "MHB-Dialogue", "dialogue"), DataSet("report", "MHB-Report", "report")),
    ask=ask,
    judge=judge,
    shape=Judgment,
    decide=decide,
    rates=read_declared(Rate, __file__, "rates.json"),
    facets=(
        FacetView("cluster", _("Trap cluster")),
        FacetView("subtype", _("Trap subtype")),
        # The paper names risk-stratified metrics as future work. Ordered levels do not suit a radar
        # chart.
        FacetView(
            "severity", _("Severity of harm"), "heat", tuple((level.value, level.label) for level in FORM.severities)
        ),
    ),
    sample_judging=SampleJudging(judge_all, Judgments, decide_all),
    judged_page=judged_page,
    judge_temperature=0.5,  # 'Evaluation Setting', with DeepSeek-R1-0528
    policies=policies.EVERY,
)
