"""The steps that make a pair of statements: choose, write, filter, split.

A pair that cannot be made keeps its reason (`REASONS`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.medical_text import is_same_text
from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.provider_words import Ending
from generation.llm.types import Request
from generation.recipes.prompts import read_prompts
from generation.recipes.recipe import Draft, Dropped, Models
from mhb_site.benchmarks.medhal import presets
from mhb_site.benchmarks.medhal.tasks import ie, nli, qa, summaries
from mhb_site.benchmarks.medhal.tasks.pair import Pair, draw_index
from mhb_site.benchmarks.medhal.tasks.sentences import Sentence, is_one_sentence, is_only_change, replace_sentence
from mhb_site.benchmarks.medhal.tasks.surface import match_surface, same_spacing

FACTUAL, NON_FACTUAL = "factual", "non-factual"
SETS = read_prompts(
    Path(__file__).parent / "prompts",
    *("state_qa", "state_value", "alter", "filter_qa", "filter_context", "filter_summary"),
)
# Contradictions are joined to the entailment of their premise; they are not records of a batch.
GENERATED = frozenset({qa.KIND, ie.KIND, summaries.KIND, nli.ENTAILMENT, nli.NEUTRAL})
WRITTEN_BY_MODEL = frozenset({qa.KIND, ie.KIND, summaries.KIND})  # kinds whose statements a model writes
WRITTEN_BY = {"qa": "state_qa", "ie": "state_value", "summarization": "alter"}  # task -> prompt
# Kind -> prompt, and how often it is asked for a pair.
_WRITING = {qa.KIND: ("state_qa", 2), ie.KIND: ("state_value", 2), summaries.KIND: ("alter", 1)}
_FILTERING = {qa.KIND: ("filter_qa", 2), summaries.KIND: ("filter_summary", 1)}
MAX_STATEMENT = 4_000  # characters; keeps a runaway reply from physicians

REASONS = {
    "the-above": _("an option refers to the others ('all of the above')"),
    "negated": _("the question asks for the exception"),
    "unseen": _("the question is about a picture that is not shown"),
    "spacing": _("the altered sentence would give itself away by its spaces"),
    "true-false": _("the options say true or false"),
    "no-question": _("no sentence ends with a question mark"),
    "no-wrong-option": _("all options read the same"),
    "nothing-extracted": _("nothing was extracted from the note"),
    "no-other-value": _("no other note has another value of this category and concept"),
    "neutral": _("neutral hypothesis"),
    "no-contradiction": _("the premise has no contradiction"),
    "no-sentence": _("no sentence is long enough"),
    "unusable": _("the model's reply is not a statement"),
    "same": _("both statements read the same"),
    "more-sentences": _("a statement is not exactly one sentence"),
    "filter-factual": _("filter: judges the factual statement as not factual"),
    "filter-non-factual": _("filter: judges the other statement as factual"),
    "filter-both": _("filter: disagrees with both labels"),
    # In older drafts only: such a reply now fails the pair instead.
    "filter-unread": _("filter: its reply is neither YES nor NO"),
}


def drop_error(draft: Draft, reason: str, **more: Any) -> Dropped:
    """The error that drops a draft for a reason in `REASONS`; `more` is added to its data."""
    return Dropped(REASONS[reason], {**draft.data, **more, "source": source_of(draft), "out": reason})


def source_of(draft: Draft) -> str:
    return str(draft.record.content.get("dataset") or draft.record.content.get("source", ""))


def is_generated(draft: Draft) -> bool:
    """Whether statements are generated from the record, rather than used as published."""
    return draft.record.content["kind"] in GENERATED


# ------------------------------------------------------------------------------------------- choose


async def choose(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """The pairs of a record, one draft each. Raises Dropped if it gives none."""
    content, external_id, settings = draft.record.content, draft.record.external_id, presets.settings(draft)
    match content["kind"]:
        case qa.KIND:
            pairs = qa.pairs(content, external_id, settings)
        case ie.KIND:
            pairs = await ie.pairs(content, external_id, settings, draft.other_values)
        case summaries.KIND:
            pairs = summaries.pairs(content, external_id, settings)
        case _:
            pairs = nli.pairs(content, external_id, settings, draft.record.joined.get("mednli", ()))
    drafts = [replace(draft, data={**pair.as_data(), "source": source_of(draft)}) for pair in pairs]
    if len(drafts) == 1 and pairs[0].out:
        raise drop_error(drafts[0], pairs[0].out)
    return drafts


# -------------------------------------------------------------------------------------------- write


async def write(draft: Draft, models: Models) -> Sequence[Draft]:
    """Write both statements of a pair and the explanation of the non-factual one.

    Raises Dropped if they cannot be used.
    """
    pair = Pair.of(draft.data)
    if pair.out:
        raise drop_error(draft, pair.out)
    match pair.task:
        case "qa" | "ie":
            prompt = WRITTEN_BY[pair.task]
            factual = await _ask_generator(draft, models, prompt, _values(pair, pair.right))
            non_factual = await _ask_generator(draft, models, prompt, _values(pair, pair.wrong))
            explanation = factual
        case "summarization":
            factual, non_factual, explanation = await _alter(draft, models, pair)
        case _:
            factual, non_factual, explanation = pair.right, pair.wrong, ""
    if is_same_text(factual, non_factual):
        raise drop_error(draft, "same", right=factual, wrong=non_factual)
    settings = presets.settings(draft)
    factual_explanation = ""
    if pair.task == "qa":
        if settings["one_sentence"] and not (is_one_sentence(factual) and is_one_sentence(non_factual)):
            raise drop_error(draft, "more-sentences")
        if pair.source_explanation and settings["qa_explanation"] == "right":
            factual_explanation = pair.source_explanation
        else:
            explanation = pair.source_explanation or explanation
    return [
        draft.extended(
            true={"statement": factual, "explanation": factual_explanation},
            false={"statement": non_factual, "explanation": explanation},
        )
    ]


def _values(pair: Pair, value: str) -> dict[str, str]:
    """What is said of a question's answer or of an extraction, with this value."""
    of_extraction = {"category": pair.category, "concept": pair.concept, "value": value, "element": pair.reference}
    return {"question": pair.question, "answer": value, **of_extraction}


async def _alter(draft: Draft, models: Models, pair: Pair) -> tuple[str, str, str]:
    """A summary, the summary with one altered sentence, and the original sentence."""
    sentence = Sentence(pair.start, pair.start + len(pair.right), pair.right)
    shown = {"text": pair.summary, "sentence": pair.right}
    reply = await _ask_generator(draft, models, WRITTEN_BY[pair.task], shown)
    new = match_surface(reply, pair.right)
    if is_same_text(new, pair.right):
        raise drop_error(draft, "same")
    altered = replace_sentence(pair.summary, sentence, new)
    if not is_only_change(pair.summary, altered, sentence, new):
        raise drop_error(draft, "unusable")
    if not same_spacing(new, pair.right):
        raise drop_error(draft, "spacing")
    # Section 3.5: simply the original sentence. The example of Table 13 names the source before it.
    explanation = pair.right
    if presets.settings(draft)["summary_explanation"] == "with-source":
        explanation = f"According to the source document, {pair.right}"
    return pair.summary, altered, explanation


async def _ask_generator(draft: Draft, models: Models, name: str, values: Mapping[str, str]) -> str:
    sampling = {setting: presets.settings(draft)[setting] for setting in ("temperature", "max_tokens")}
    reply = await models.ask("generator", SETS[draft.prompts][name].request(values, **sampling))
    text = " ".join(reply.text.split())
    if not text or len(text) > MAX_STATEMENT or reply.ending == Ending.CUT_OFF:
        raise drop_error(draft, "unusable")
    return text


# ------------------------------------------------------------------------------------------- filter


def is_filtered(draft: Draft) -> bool:
    """Whether a model judges the statements of this kind of record."""
    settings, kind = presets.settings(draft), draft.record.content["kind"]
    if not is_generated(draft) or not settings["filter"]:
        return False
    return kind not in nli.KINDS or (kind == nli.ENTAILMENT and settings["filter_nli"])


async def judge(draft: Draft, models: Models) -> Sequence[Draft]:
    """Put the statements to the filter.

    A factual summary is not judged: it is the published text, to the letter.

    Raises:
        Dropped: the filter disagrees with a label.
        BrokenReply: it answers neither YES nor NO. The pair has failed and can be judged again.
    """
    pair, judged = Pair.of(draft.data), {}
    for label, key in ((FACTUAL, "true"), (NON_FACTUAL, "false")):
        if pair.task == "summarization" and label == FACTUAL:
            continue
        request = _filter_request(draft, pair, draft.data[key]["statement"])
        judged[label] = read_verdict((await models.ask("filter", request, check=_check_verdict)).text)
    draft = draft.extended(judged=judged)
    disagreements = [label for label, factual in judged.items() if factual != (label == FACTUAL)]
    if len(disagreements) > 1:
        raise drop_error(draft, "filter-both")
    if disagreements:
        raise drop_error(draft, f"filter-{disagreements[0]}")
    return [draft]


def _filter_request(draft: Draft, pair: Pair, statement: str) -> Request:
    """The request to judge a statement, with the truth as a hint as in the paper."""
    prompts = SETS[draft.prompts]
    match pair.task:
        case "qa":
            data = {"question": pair.question, "answer": pair.right, "statement": statement}
            return prompts["filter_qa"].request(data, {"context": context_block(pair.context)}, temperature=0.0)
        case "summarization":
            end = len(statement) - (len(pair.summary) - pair.start - len(pair.right))
            data = {"original": pair.right, "rewritten": statement[pair.start : end]}
            context = context_block(context_of(draft, pair))  # section 3.7: "given its context"
            return prompts["filter_summary"].request(data, {"context": context}, temperature=0.0)
    data = {"text": context_of(draft, pair), "statement": statement}
    return prompts["filter_context"].request(data, temperature=0.0)


def context_block(context: str) -> str:
    """The block of a prompt with a statement's context; nothing for a statement without one."""
    if context:
        return f"\n<<<CONTEXT\n{as_data(context)}\nCONTEXT>>>\n"
    return ""


def read_verdict(reply: str) -> bool | None:
    """True for YES, False for NO, None for any other reply."""
    return {"yes": True, "no": False}.get(reply.strip().strip(".!*'\"").casefold())


def _check_verdict(reply: str) -> None:
    if read_verdict(reply) is None:
        raise BrokenReply(f"The filter answered neither YES nor NO: {reply.strip()[:200]!r}")


def context_of(draft: Draft, pair: Pair) -> str:
    """The context of a pair's statements."""
    if pair.field:
        return str(draft.record.content[pair.field])
    return pair.context


# -------------------------------------------------------------------------------------------- split


async def split(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Split a pair into one draft per statement, in a drawn order: an odd number says nothing."""
    labels = (FACTUAL, NON_FACTUAL)
    place = str(draft.data.get("place", "0"))
    if draw_index(2, presets.settings(draft)["seed"], "order", draft.record.external_id, place):
        labels = (NON_FACTUAL, FACTUAL)
    return [draft.extended(label=label) for label in labels]


async def keep(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Keep a statement as it is, so that it becomes a sample."""
    return [draft]


# ----------------------------------------------------------------------------------------- estimate


def write_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    """The (role, prompt label) of each request to the generator for a record."""
    name, times = _WRITING.get(draft.record.content["kind"], ("alter", 0))
    return [("generator", SETS[draft.prompts][name].label)] * (times * _pair_count(draft))


def judge_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    """The (role, prompt label) of each request to the filter for a record."""
    name, times = _FILTERING.get(draft.record.content["kind"], ("filter_context", 2))
    return [("filter", SETS[draft.prompts][name].label)] * (times * _pair_count(draft))


def _pair_count(draft: Draft) -> int:
    settings, content = presets.settings(draft), draft.record.content
    match content["kind"]:
        case ie.KIND:
            return len(ie.selected_extractions(content, draft.record.external_id, settings))
        case summaries.KIND:
            return sum(not pair.out for pair in summaries.pairs(content, draft.record.external_id, settings))
    return 1
