"""The evaluation protocol of MedHallu: is the answer shown hallucinated?

The positive class is *hallucinated* throughout.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.utils.translation import gettext_noop as _

from evaluation.protocol import Ask, DataSet, Decision, FacetView, Protocol, Rate, Rubric, Sample
from generation.common.declared import read_declared
from generation.recipes.prompts import Prompt, read_prompt
from mhb_site.benchmarks.medhallu import taxonomy
from mhb_site.benchmarks.medhallu.parsing import Reading, read_reply
from mhb_site.benchmarks.medhallu.votes import HALLUCINATED, TRUTH

PROMPTS = Path(__file__).parent / "prompts"
TASK = "detection"
PLAIN, KNOWLEDGE, PLAIN_UNSURE, KNOWLEDGE_UNSURE = "plain", "knowledge", "plain-unsure", "knowledge-unsure"
DETECT: Mapping[str, Prompt] = {
    PLAIN: read_prompt(PROMPTS / "detect.md"),
    KNOWLEDGE: read_prompt(PROMPTS / "detect_knowledge.md"),
    PLAIN_UNSURE: read_prompt(PROMPTS / "detect_unsure.md"),
    KNOWLEDGE_UNSURE: read_prompt(PROMPTS / "detect_knowledge_unsure.md"),
}
# Detectors are told of the categories what the generator is told (`candidates`).
CATEGORIES = "\n".join(f"- {term.label}: {term.definition}" for term in taxonomy.TERMS)
MAY_BE_UNSURE = frozenset({PLAIN_UNSURE, KNOWLEDGE_UNSURE})
HAS_KNOWLEDGE = frozenset({KNOWLEDGE, KNOWLEDGE_UNSURE})

# 'Discriminator Model Settings' gives a temperature of 'approximately 0.2-0.3'; the released script
# sets 0.3 and the other two.
TEMPERATURE, TOP_P, MAX_TOKENS = 0.3, 0.95, 512

_SHOWN_LABELS = (_("truth"), _("hallucinated"))  # shown on pages; listed here for translation

VERDICTS: Mapping[tuple[str, Reading], str] = {
    (HALLUCINATED, Reading.HALLUCINATED): "tp",
    (TRUTH, Reading.HALLUCINATED): "fp",
    (TRUTH, Reading.FACTUAL): "tn",
    (HALLUCINATED, Reading.FACTUAL): "fn",
    (HALLUCINATED, Reading.UNSURE): "unsure-pos",
    (TRUTH, Reading.UNSURE): "unsure-neg",
    (HALLUCINATED, Reading.UNPARSED): "unparsed-pos",
    (TRUTH, Reading.UNPARSED): "unparsed-neg",
}


def shown_answer(key: str, seed: int) -> str:
    """Which of a sample's two answers is shown.

    A fair draw, the same for all variants and endpoints of a run. The paper does not say which
    answer is shown; the released script draws one per question, without a seed.
    """
    digest = hashlib.sha256(f"{seed}\x1f{key}".encode("utf-8", "surrogatepass")).digest()
    if digest[0] & 1:
        return HALLUCINATED
    return TRUTH


def ask(sample: Sample, seed: int) -> Sequence[Ask]:
    """The question about the same answer, once per variant.

    A sample without knowledge is asked only in the variants without it. Everything is in one user
    turn, as in the released script: some of the paper's models accept no system turn.
    """
    content = sample.content
    answer = shown_answer(sample.key, seed)
    data = {"question": content["question"], "answer": content[answer], "knowledge": content["knowledge"]}
    texts, sampling = {"categories": CATEGORIES}, {"temperature": TEMPERATURE, "top_p": TOP_P, "max_tokens": MAX_TOKENS}
    asks = []
    for variant, prompt in DETECT.items():
        if content["knowledge"] or variant not in HAS_KNOWLEDGE:
            asks.append(Ask.of(prompt.request(data, texts, **sampling), variant, about={_("shown"): answer}))
    return asks


def read(sample: Sample, rubric: Rubric, variant: str, about: Mapping[str, str], response: str) -> Decision:  # noqa: ARG001
    """The cell of the confusion matrix for a reply.

    The explanation gives the answer shown and the reading.
    """
    reading = read_reply(response, unsure=variant in MAY_BE_UNSURE)
    return Decision(VERDICTS[about["shown"], reading], f"shown: {about['shown']}; read: {reading}")


# The paper prints F1 and precision as decimals and, as here, leaves abstentions out.
RATES = read_declared(Rate, __file__, "rates.json")

# Labels of the cells of the confusion matrix, and the cells that count against a model.
VERDICT_LABELS: Mapping[str, str] = {
    "tp": _("hallucination detected"),
    "fn": _("hallucination missed"),
    "tn": _("true answer recognised"),
    "fp": _("true answer called hallucinated"),
    "unsure-pos": _("not sure (hallucinated answer shown)"),
    "unsure-neg": _("not sure (true answer shown)"),
    "unparsed-pos": _("no clear decision (hallucinated answer shown)"),
    "unparsed-neg": _("no clear decision (true answer shown)"),
}
WRONG = frozenset({"fn", "fp"})

# (data set, baseline data set, label): contrasts shown beside the rates.
CONTRASTS = (
    (KNOWLEDGE, PLAIN, _("Effect of knowledge")),
    (PLAIN_UNSURE, PLAIN, _("Effect of allowing 'not sure'")),
    (KNOWLEDGE_UNSURE, KNOWLEDGE, _("Effect of allowing 'not sure', with knowledge")),
)

PROTOCOL = Protocol(
    label=_("MedHallu: detecting hallucinated answers"),
    datasets=(
        DataSet(PLAIN, _("Without knowledge"), TASK, PLAIN),
        DataSet(KNOWLEDGE, _("With knowledge"), TASK, KNOWLEDGE),
        DataSet(PLAIN_UNSURE, _("Without knowledge, 'not sure' allowed"), TASK, PLAIN_UNSURE),
        DataSet(KNOWLEDGE_UNSURE, _("With knowledge, 'not sure' allowed"), TASK, KNOWLEDGE_UNSURE),
    ),
    ask=ask,
    read=read,
    rates=RATES,
    facets=read_declared(FacetView, __file__, "facets.json"),
    pooled=False,  # a pooled rate would count each question four times
    contrasts=CONTRASTS,
    verdicts=VERDICT_LABELS,
    wrong=WRONG,
)
