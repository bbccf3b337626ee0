"""The evaluation protocol of MedHal: is a statement factual, and why?

The statement comes with its context, if it has one. The positive class is *factual*, as in the
released code; the rates of the other class have names of their own.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from django.utils.translation import gettext_noop as _

from evaluation.protocol import Ask, DataSet, Decision, FacetView, Protocol, Rate, Rubric, Sample, ScoreRule
from generation.common.declared import read_declared
from generation.llm.types import Message
from generation.recipes.prompts import read_prompt
from mhb_site.benchmarks.medhal import parsing, scoring, taxonomy
from mhb_site.benchmarks.medhal.pair_steps import FACTUAL, NON_FACTUAL, context_block

PROMPTS = Path(__file__).parent / "prompts"
PLAIN, PROMETHEUS, HALLOUMI = "plain", "prometheus", "halloumi"
OWN = "own"  # each model in the format that it was trained on, as in Table 6
ONE_SHOT = "one-shot"  # Section 4.4.2: without an example, models find no hallucination there
FORMAT = "format"  # of a question in the variant OWN, in its `about`
ASK = read_prompt(PROMPTS / "ask.md")
ASK_PROMETHEUS, ASK_HALLOUMI = read_prompt(PROMPTS / "prometheus.md"), read_prompt(PROMPTS / "halloumi.md")
PARSERS = {
    PLAIN: parsing.read_plain,
    ONE_SHOT: parsing.read_plain,
    PROMETHEUS: parsing.read_prometheus,
    HALLOUMI: parsing.read_halloumi,
}
# The example of the variant ONE_SHOT; the paper's is not published.
EXAMPLE_CONTEXT = (
    "A 64-year-old woman was admitted with pneumonia. She took amoxicillin by mouth for seven days and went home "
    "without fever. She has no known allergies."
)
EXAMPLE_STATEMENT = "The patient received vancomycin into a vein and went home without fever."
EXAMPLE_REPLY = (
    "Factual: NO\nExplanation: She took amoxicillin by mouth for seven days; vancomycin is mentioned nowhere."
)
# The released script's defaults; the paper gives none.
TEMPERATURE, TOP_P, MAX_TOKENS = 0.0, 1.0, 512


def ask(sample: Sample, seed: int) -> Sequence[Ask]:  # noqa: ARG001 - nothing is random
    """The question in the paper's wording and in the formats of two trained evaluators."""
    statement, context = str(sample.content["statement"]), str(sample.content.get("context") or "")
    data = {"statement": statement}
    texts = {"context": context_block(context), "blocks": halloumi_blocks(context, statement)}
    sampling = {"temperature": TEMPERATURE, "top_p": TOP_P, "max_tokens": MAX_TOKENS}
    prompts = {PLAIN: ASK, PROMETHEUS: ASK_PROMETHEUS, HALLOUMI: ASK_HALLOUMI}
    return [Ask.of(prompt.request(data, texts, **sampling), variant) for variant, prompt in prompts.items()]


def asks(sample: Sample, seed: int) -> Sequence[Ask]:
    """The questions of `ask`, with one example, and in the variant OWN: plain until it is known who is asked."""
    plain, *others = ask(sample, seed)
    return [plain, *others, with_example(plain), replace(plain, variant=OWN, about={FORMAT: PLAIN})]


def with_example(plain: Ask) -> Ask:
    """The plain question after an example of it with its reply."""
    shown = ASK.request({"statement": EXAMPLE_STATEMENT}, {"context": context_block(EXAMPLE_CONTEXT)})
    messages = (*shown.messages, Message("assistant", EXAMPLE_REPLY), *plain.messages)
    return replace(plain, variant=ONE_SHOT, messages=messages)


def ask_model(sample: Sample, asked: Ask, model: str) -> Ask:
    """In the variant OWN, the question in the format of the trained evaluator whose name the model bears."""
    if asked.variant != OWN:
        return asked
    named = PLAIN
    if PROMETHEUS in model.casefold():
        named = PROMETHEUS
    elif HALLOUMI in model.casefold():
        named = HALLOUMI
    [of_format] = [each for each in ask(sample, 0) if each.variant == named]
    return replace(of_format, variant=OWN, about={FORMAT: named})


def parser_of(variant: str, about: Mapping[str, str]) -> Callable[[str], parsing.Reading]:
    """What reads the replies to a question."""
    if variant == OWN:
        variant = about.get(FORMAT, PLAIN)
    return PARSERS[variant]


def halloumi_blocks(context: str, statement: str) -> str:
    """HallOumi's training format: the context's sentences, a request, and the claim to verify."""
    sentences = [part for part in re.split(r"(?<=[.!?])\s+|\n+", context) if part.strip()]
    numbered = ""
    for number, sentence in enumerate(sentences, 1):
        numbered += f"<|s{number}|><{_escape_marks(sentence)}><end||s>"
    request = "Make one or more claims about information in the documents."
    claim = f"<|response|><|r1|><{_escape_marks(statement)}><end||r><end||response>"
    return f"<|context|>{numbered}<end||context><|request|><{request}><end||request>{claim}"


def _escape_marks(text: str) -> str:
    """The text with the format's marks broken up, so that none can begin or end in it."""
    return " ".join(text.replace("<|", "< |").replace("|>", "| >").replace("||", "| |").split())


# ------------------------------------------------------------------------------------------ reading

VERDICTS = {
    (FACTUAL, True): "tp",
    (FACTUAL, False): "fn",
    (NON_FACTUAL, False): "tn",
    (NON_FACTUAL, True): "fp",
    (FACTUAL, None): "unparsed-factual",
    (NON_FACTUAL, None): "unparsed-nonfactual",
}


def read(sample: Sample, rubric: Rubric, variant: str, about: Mapping[str, str], response: str) -> Decision:  # noqa: ARG001
    """The cell of the confusion matrix for a reply, with the explanation read from it."""
    reading = parser_of(variant, about)(response)
    return Decision(VERDICTS[label_of(sample), reading.factual], reading.explanation)


def score(
    sample: Sample,
    rubric: Rubric,  # noqa: ARG001
    variant: str,
    about: Mapping[str, str],
    response: str,
    verdict: str,
) -> Mapping[str, float]:
    """BLEU and ROUGE if statement and decision are non-factual and both have an explanation."""
    reference = str(sample.content.get("explanation") or "")
    explanation = ""
    if verdict == "tn":
        explanation = parser_of(variant, about)(response).explanation
    if explanation and reference:
        return scoring.scores(explanation, reference)
    return {}


def label_of(sample: Sample) -> str:
    if sample.content["label"] == FACTUAL:
        return FACTUAL
    return NON_FACTUAL


# ----------------------------------------------------------------------------------------- training


def example(sample: Sample) -> Sequence[Message]:
    """The paper's question with the right answer, in the format of its training prompt."""
    content = sample.content
    if label_of(sample) == FACTUAL:
        answer = "Factual: YES\nExplanation: The statement is factual."
    else:
        answer = f"Factual: NO\nExplanation: {content.get('explanation') or ''}".rstrip()
    return (*ask(sample, 0)[0].messages, Message("assistant", answer))


def kept_together(sample: Sample) -> Sequence[str]:
    """Keys of statements to keep in one part of a training set: same record, pair or context."""
    content = sample.content
    keys = []
    if content.get("inner_id"):
        keys.append(f"{content.get('source')}:{content['inner_id']}")
    if content.get("pair"):
        keys.append(f"pair:{content['pair']}")
    if content.get("context"):
        keys.append(f"context:{content['context']}")
    return keys


# -------------------------------------------------------------------------------------------- rates

SCORES = (
    ScoreRule(
        scoring.BLEU,
        "BLEU",
        _(
            "Sentence BLEU of the model's explanation against the true one, by sacrebleu. Only where statement and decision"
            " are both non-factual and both have an explanation."
        ),
    ),
    ScoreRule(
        scoring.ROUGE_1,
        "ROUGE-1",
        _(
            "F of shared words between the model's explanation and the true one, by rouge-score and in its words: runs of"
            " a-z and 0-9. Only where statement and decision are both non-factual and both have an explanation."
        ),
    ),
    ScoreRule(
        scoring.ROUGE_2,
        "ROUGE-2",
        _(
            "F of shared pairs of words between the model's explanation and the true one, by rouge-score and in its words:"
            " runs of a-z and 0-9. Only where statement and decision are both non-factual and both have an explanation."
        ),
    ),
    ScoreRule(
        scoring.ROUGE_1_WORDS,
        _("ROUGE-1, medical words"),
        _(
            "ROUGE-1 over words that keep signs, decimals, units, Greek letters and all scripts. Published figures do not:"
            " compare them with ROUGE-1."
        ),
    ),
    ScoreRule(
        scoring.ROUGE_2_WORDS,
        _("ROUGE-2, medical words"),
        _(
            "ROUGE-2 over words that keep signs, decimals, units, Greek letters and all scripts. Published figures do not:"
            " compare them with ROUGE-2."
        ),
    ),
)

PROTOCOL = Protocol(
    label=_("MedHal: telling factual from non-factual statements"),
    datasets=read_declared(DataSet, __file__, "datasets.json"),
    ask=asks,
    ask_model=ask_model,
    read=read,
    rates=read_declared(Rate, __file__, "rates.json"),
    facets=(
        FacetView("source", _("Source"), "heat", taxonomy.SOURCES),
        FacetView("length", _("Length of the context"), "heat", taxonomy.LENGTHS),
    ),
    verdicts={
        "tp": _("factual statement recognised"),
        "fn": _("factual statement called non-factual"),
        "tn": _("non-factual statement recognised"),
        "fp": _("non-factual statement called factual"),
        "unparsed-factual": _("no clear decision (factual statement)"),
        "unparsed-nonfactual": _("no clear decision (non-factual statement)"),
    },
    wrong=frozenset({"fn", "fp"}),
    scores=SCORES,
    score=score,
    prepare=scoring.prepare,
    example=example,
    kept_together=kept_together,
)
