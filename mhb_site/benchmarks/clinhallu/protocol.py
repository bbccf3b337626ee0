"""The evaluation protocol of ClinHallu: a free trace and three interventions (section 4.3).

An intervention gives the model stages of the reference trace to continue from. EVALUATION.md lists
what the paper leaves open and what was chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_noop as _

from evaluation.protocol import (
    JUDGE_FAILURES,
    Ask,
    CountingPreset,
    DataSet,
    Decision,
    FacetView,
    Protocol,
    Rate,
    Rubric,
    Sample,
)
from generation.common.declared import read_declared
from generation.llm.types import Request
from generation.recipes.prompts import Prompt, read_prompt
from mhb_site.benchmarks.clinhallu import trace_text
from mhb_site.benchmarks.clinhallu.judging import (
    ANSWER,
    ANSWER_RULE,
    CORRECT,
    HALLUCINATED,
    PROMPTS,
    STAGE_RULE,
    SUPPORT,
    SUPPORTED,
    TEMPERATURE,
    WRONG,
    AnswerVerdict,
    decide_answer,
    judge_answer,
    option_lines,
    stage_judging,
    without_images,
)
from mhb_site.benchmarks.clinhallu.review import question_blocks
from mhb_site.benchmarks.clinhallu.trace_text import (
    KNOWLEDGE,
    REASONING,
    STAGE_LABELS,
    VISUAL,
    read_trace,
    request_with_images,
    stage_fault,
    write_stages,
)
from review.rules.blocks import Block, Table, Text

FREE, REP_V, REP_K, REP_VK = "free", "rep-v", "rep-k", "rep-vk"
QUESTIONS: Mapping[str, Prompt] = {
    FREE: read_prompt(PROMPTS / "trace.md"),
    REP_V: read_prompt(PROMPTS / "continue_visual.md"),
    REP_K: read_prompt(PROMPTS / "continue_knowledge.md"),
    REP_VK: read_prompt(PROMPTS / "continue_knowledge.md"),
}
# From configs/config.yaml of the released code; the paper names only the temperature.
ASK_TEMPERATURE, TOP_P, MAX_TOKENS = 0.7, 0.9, 4096
OWN_PLACEHOLDER = "(the model's own visual recognition)"  # in the example of Rep-K's question
MISSING, UNREAD = "missing", "unread"

# The variant in which each stage is judged: the one in which all earlier stages are the reference's
# (eq. 12). Rep-K keeps the model's own visual recognition, so the released code judges it there.
JUDGED_ON: Mapping[str, str] = {VISUAL: REP_K, KNOWLEDGE: REP_V, REASONING: REP_VK}


def ask(sample: Sample, seed: int) -> Sequence[Ask]:  # noqa: ARG001
    """The four questions about a sample, each with its images. Rep-K waits for the free trace."""
    asks = []
    for variant in QUESTIONS:
        after = ""
        if variant == REP_K:
            after = FREE
        asks.append(Ask.of(_request(sample, variant, OWN_PLACEHOLDER), variant, after=after))
    return asks


def _given(sample: Sample, variant: str, own_visual: str) -> dict[str, str]:
    """The stages that a variant gives; in Rep-K, the visual recognition is the model's own."""
    trace = sample.content["trace"]
    return {
        FREE: {},
        REP_V: {VISUAL: trace[VISUAL]},
        REP_K: {VISUAL: own_visual, KNOWLEDGE: trace[KNOWLEDGE]},
        REP_VK: {VISUAL: trace[VISUAL], KNOWLEDGE: trace[KNOWLEDGE]},
    }[variant]


def _request(sample: Sample, variant: str, own_visual: str) -> Request:
    content = sample.content
    given = _given(sample, variant, own_visual)
    data = {"question": content["question"], "options": option_lines(content), **given}
    sampling: dict[str, Any] = {"temperature": ASK_TEMPERATURE, "top_p": TOP_P, "max_tokens": MAX_TOKENS}
    return request_with_images(QUESTIONS[variant], content["images"], data, **sampling)


def ask_on(sample: Sample, asked: Ask, earlier: Mapping[str, str]) -> Ask | None:
    """Rep-K with the free trace's visual recognition; None if that has fewer than three words."""
    own_visual = read_trace(earlier[FREE]).visual
    if stage_fault(VISUAL, own_visual):
        return None
    return replace(asked, messages=_request(sample, REP_K, own_visual).messages)


def composed(sample: Sample, variant: str, text: str, earlier: Mapping[str, str]) -> str:
    """The whole trace: the given stages and the model's continuation."""
    return write_stages(**_given(sample, variant, read_trace(earlier.get(FREE, "")).visual)) + text


def read(sample: Sample, rubric: Rubric, variant: str, about: Mapping[str, str], text: str) -> Decision | None:  # noqa: ARG001
    """The verdict that needs no judge: a missing stage, or an answer without a valid trace."""
    trace = read_trace(text)
    if rubric.key == ANSWER:
        fault = trace.fault()
    else:
        fault = stage_fault(rubric.key, trace.stage(rubric.key))
    if fault:
        return Decision(MISSING, fault)
    return None


def judged_page(sample: Sample, rubrics: Sequence[Rubric], variant: str, text: str) -> Sequence[Block]:  # noqa: ARG001
    """What the judges of these rubrics are given, and no more: a stage after it would tell how it ended."""
    trace, reference_trace = read_trace(text), sample.content["trace"]
    keys = [rubric.key for rubric in rubrics]
    judged_stages = [stage for stage in STAGE_LABELS if stage in keys]
    blocks = list(question_blocks(sample.content))
    shown_stages = set[str]().union(*(SUPPORT[stage] for stage in judged_stages))
    rows = []
    for stage, label in STAGE_LABELS.items():
        if stage in shown_stages:
            rows.append((label, reference_trace[stage], trace.stage(stage)))
    if rows:
        blocks.append(Table(_("Steps before it, for context"), (_("Step"), _("Reference"), _("Model")), tuple(rows)))
    for stage in judged_stages:
        pair = ((reference_trace[stage], trace.stage(stage)),)
        blocks.append(Table(STAGE_LABELS[stage], (_("Reference"), _("To judge")), pair))
    if judged_stages:
        blocks.append(Text(_("The judge's rule"), STAGE_RULE, "rule"))
    if ANSWER in keys:
        blocks.append(Text(_("The answer to judge"), trace.answer))
        blocks.append(Text(_("The judge's rule for answers"), ANSWER_RULE, "rule"))
    return blocks


def parts(text: str) -> Sequence[tuple[str, str]]:
    """The stages and the answer of a reply, with their labels."""
    trace = read_trace(text)
    return [(label, trace.stage(name)) for name, label in PART_LABELS.items()]


def reference(sample: Sample) -> str:
    """The reference trace as text."""
    trace = dict(sample.content["trace"])
    answer = trace.pop("answer")
    return f"{write_stages(**trace).rstrip()}\n{trace_text.ANSWER} {answer}"


PART_LABELS = {**STAGE_LABELS, ANSWER: _("Answer")}


DATASETS = read_declared(DataSet, __file__, "datasets.json")
TASKS = tuple(dict.fromkeys(dataset.task for dataset in DATASETS))

VISUAL_REPLACED, KNOWLEDGE_REPLACED = _("Visual recognition replaced"), _("Knowledge recall replaced")


def _contrasts() -> tuple[tuple[str, str, str], ...]:
    """The data sets with replaced stages, each beside the free one of its task."""
    replaced = ((REP_V, VISUAL_REPLACED), (REP_K, KNOWLEDGE_REPLACED), (REP_VK, _("Both replaced")))
    contrasts = []
    for task in TASKS:
        for variant, label in replaced:
            contrasts.append((f"{task}-{variant}", f"{task}-{FREE}", label))
    return tuple(contrasts)


PROTOCOL = Protocol(
    label=_("ClinHallu: hallucination by stage of reasoning"),
    datasets=DATASETS,
    ask=ask,
    ask_on=ask_on,
    composed=composed,
    parts=parts,
    reference=reference,
    judge=judge_answer,
    shape=AnswerVerdict,
    decide=decide_answer,
    gives=(CORRECT, WRONG),
    by_rubric={stage: stage_judging(variant) for stage, variant in JUDGED_ON.items()},
    read=read,
    judge_temperature=TEMPERATURE,
    validation_sample="10%",
    judged_page=judged_page,
    rates=read_declared(Rate, __file__, "rates.json"),
    facets=(
        FacetView(
            "question_type",
            _("Type of question"),
            "heat",
            (
                ("yes_no", _("Yes or no")),
                ("open_ended", _("Open-ended")),
                ("multiple_choice", _("Multiple choice")),
            ),
        ),
        FacetView("images", _("Images"), "heat", (("one", _("One")), ("several", _("Several")))),
    ),
    pooled=False,  # a pooled rate would count each question four times
    contrasts=_contrasts(),
    rivals=frozenset({VISUAL_REPLACED, KNOWLEDGE_REPLACED}),
    verdicts={
        CORRECT: _("correct"),
        WRONG: _("wrong"),
        SUPPORTED: _("supported"),
        HALLUCINATED: _("hallucinated"),
        MISSING: _("nothing to judge"),
        UNREAD: _("failure of the judge"),
    },
    presets={
        "paper": CountingPreset(_("As in the paper: judges see the images, their failures are excluded"), "accuracy"),
        "released": CountingPreset(
            _(
                "As in the released code: only the visual judge sees images; a stage counts as hallucinated if its judge failed"
            ),
            "accuracy_valid",
            dict.fromkeys(JUDGE_FAILURES, UNREAD),
            without_images(JUDGED_ON),
        ),
    },
    outcomes=dict.fromkeys(("failed", "filtered", "empty", "unasked"), MISSING),
    wrong=frozenset({WRONG, HALLUCINATED, MISSING, UNREAD}),
)
