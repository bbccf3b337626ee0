"""The steps that make a pair of statements: choose, write, filter, split. What comes to nothing keeps its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.types import Request
from generation.recipes.prompts import Prompt, read_prompts
from generation.recipes.recipe import Draft, Dropped, Models
from mhb_site.benchmarks.medhal import presets
from mhb_site.benchmarks.medhal.tasks import ie, nli, qa, summaries
from mhb_site.benchmarks.medhal.tasks.pair import Pair
from mhb_site.benchmarks.medhal.tasks.sentences import Sentence, changed_only, is_one, put_back

FACTUAL, NON_FACTUAL = "factual", "non-factual"
PROMPTS = read_prompts(
    Path(__file__).parent / "prompts",
    *("state_qa", "state_value", "alter", "filter_qa", "filter_context", "filter_summary"),
)
# Contradictions come in with the entailment of their premise, and are no records of a batch.
MADE = frozenset({qa.KIND, ie.KIND, summaries.KIND, nli.ENTAILMENT, nli.NEUTRAL})
WRITTEN = frozenset({qa.KIND, ie.KIND, summaries.KIND})  # kinds whose statements a model writes
MAX_STATEMENT = 4_000  # characters; keeps a runaway reply from physicians

REASONS = {
    "the-above": _("an option refers to the others ('all of the above')"),
    "negated": _("the question asks for the exception"),
    "true-false": _("the options say true or false"),
    "no-question": _("no sentence of it ends with a question mark"),
    "no-wrong-option": _("all options read the same"),
    "nothing-extracted": _("nothing was extracted from the note"),
    "no-other-value": _("no other note has another value of this category and concept"),
    "neutral": _("neutral hypothesis"),
    "no-contradiction": _("the premise has no contradiction"),
    "no-sentence": _("no sentence is long enough, or only the last one"),
    "unusable": _("the model's reply is no statement"),
    "same": _("both statements read the same"),
    "more-sentences": _("a statement is not exactly one sentence"),
    "filter-factual": _("filter: judges the factual statement as not factual"),
    "filter-non-factual": _("filter: judges the other statement as factual"),
    "filter-both": _("filter: disagrees with both labels"),
    # Of drafts from before such a reply failed the pair:
    "filter-unread": _("filter: its reply is neither YES nor NO"),
}


def prompt_of(draft: Draft, name: str) -> Prompt:
    """A prompt in the set of the draft's batch."""
    return PROMPTS.get(draft.prompts, PROMPTS[""])[name]


def dropped(draft: Draft, reason: str, **more: Any) -> Dropped:
    """What gives a draft up for a reason of `REASONS`."""
    return Dropped(REASONS[reason], {**draft.data, **more, "source": source_of(draft), "out": reason})


def source_of(draft: Draft) -> str:
    return str(draft.record.content.get("dataset") or draft.record.content.get("source", ""))


def is_made(draft: Draft) -> bool:
    """Whether statements are made of the record, and not taken over."""
    return draft.record.content["kind"] in MADE


# -------------------------------------------------------------------------------------------------------------- choose


async def choose(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """The pairs that a record gives, each a draft of its own. Raises Dropped where it gives none."""
    content, name, settings = draft.record.content, draft.record.external_id, presets.settings(draft)
    match content["kind"]:
        case qa.KIND:
            found = qa.pairs(content, name, settings)
        case ie.KIND:
            found = await ie.pairs(content, name, settings, draft.others)
        case summaries.KIND:
            found = summaries.pairs(content, name, settings)
        case _:
            found = nli.pairs(content, name, settings, draft.record.joined.get("mednli", ()))
    drafts = [replace(draft, data={**pair.as_data(), "source": source_of(draft)}) for pair in found]
    if len(drafts) == 1 and found[0].out:
        raise dropped(drafts[0], found[0].out)
    return drafts


# --------------------------------------------------------------------------------------------------------------- write


async def write(draft: Draft, models: Models) -> Sequence[Draft]:
    """Both statements of a pair, and what explains the one that is not factual. Raises Dropped where they cannot be used."""
    pair = Pair.of(draft.data)
    if pair.out:
        raise dropped(draft, pair.out)
    match pair.task:
        case "qa":
            right, wrong, why = await _write_both(
                draft, models, "state_qa", _question(pair, "right"), _question(pair, "wrong")
            )
        case "ie":
            right, wrong, why = await _write_both(
                draft, models, "state_value", _value(pair, "right"), _value(pair, "wrong")
            )
        case "summarization":
            right, wrong, why = await _alter(draft, models, pair)
        case _:
            right, wrong, why = pair.right, pair.wrong, ""
    if _plain(right) == _plain(wrong):
        raise dropped(draft, "same", right=right, wrong=wrong)
    settings = presets.settings(draft)
    if pair.task == "qa" and settings["one_sentence"] and not (is_one(right) and is_one(wrong)):
        raise dropped(draft, "more-sentences")
    of_right = ""
    if pair.task == "qa" and pair.source_explanation:
        if settings["qa_explanation"] == "right":
            of_right = pair.source_explanation
        else:
            why = pair.source_explanation
    true = {"statement": right, "explanation": of_right}
    return [replace(draft, data={**draft.data, "true": true, "false": {"statement": wrong, "explanation": why}})]


def _question(pair: Pair, which: str) -> dict[str, str]:
    return {"question": as_data(pair.question), "answer": as_data(getattr(pair, which))}


def _value(pair: Pair, which: str) -> dict[str, str]:
    told = {
        "category": pair.category,
        "concept": pair.concept,
        "value": getattr(pair, which),
        "element": pair.reference,
    }
    return {name: as_data(value) for name, value in told.items()}


async def _write_both(
    draft: Draft, models: Models, name: str, right: Mapping[str, str], wrong: Mapping[str, str]
) -> tuple[str, str, str]:
    """The factual statement, the other, and the first again, which explains what is wrong in the second."""
    made = [await _ask(draft, models, name, values) for values in (right, wrong)]
    return made[0], made[1], made[0]


async def _alter(draft: Draft, models: Models, pair: Pair) -> tuple[str, str, str]:
    """A summary, the same with one sentence altered and nothing else, and the sentence as it was."""
    sentence = Sentence(pair.start, pair.start + len(pair.right), pair.right)
    said = await _ask(draft, models, "alter", {"text": as_data(pair.summary), "sentence": as_data(pair.right)})
    new = summaries.in_place(said, pair.right)
    if _plain(new) == _plain(pair.right):
        raise dropped(draft, "same")
    altered = put_back(pair.summary, sentence, new)
    if not changed_only(pair.summary, altered, sentence, new):
        raise dropped(draft, "unusable")
    return pair.summary, altered, f"According to the source document, {pair.right}"


async def _ask(draft: Draft, models: Models, name: str, values: Mapping[str, str]) -> str:
    prompt, settings = prompt_of(draft, name), presets.settings(draft)
    reply = await models.ask(
        "generator",
        Request(
            prompt.messages(**values),
            prompt=prompt.label,
            temperature=settings["temperature"],
            max_tokens=settings["max_tokens"],
        ),
    )
    text = " ".join(reply.text.split())
    if not text or len(text) > MAX_STATEMENT or reply.finish_reason == "length":
        raise dropped(draft, "unusable")
    return text


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


# -------------------------------------------------------------------------------------------------------------- filter


def is_filtered(draft: Draft) -> bool:
    """Whether a model judges the statements of a record of this kind."""
    settings, kind = presets.settings(draft), draft.record.content["kind"]
    if not is_made(draft) or not settings["filter"]:
        return False
    return kind not in nli.KINDS or (kind == nli.ENTAILMENT and settings["filter_nli"])


async def judge(draft: Draft, models: Models) -> Sequence[Draft]:
    """Put the statements to the filter. Raises Dropped where it disagrees with a label, BrokenReply where it says neither YES
    nor NO: the pair failed, and can be judged again.

    A factual summary is not judged: it is the published text, to the letter.
    """
    pair, judged = Pair.of(draft.data), {}
    for label, told in ((FACTUAL, "true"), (NON_FACTUAL, "false")):
        if pair.task == "summarization" and label == FACTUAL:
            continue
        name, values = _judged_by(draft, pair, draft.data[told]["statement"])
        prompt = prompt_of(draft, name)
        request = Request(prompt.messages(**values), prompt=prompt.label, temperature=0.0)
        judged[label] = read((await models.ask("filter", request, check=_check_read)).text)
    draft = replace(draft, data={**draft.data, "judged": judged})
    against = [label for label, factual in judged.items() if factual != (label == FACTUAL)]
    if against:
        raise dropped(draft, f"filter-{against[0]}" if len(against) == 1 else "filter-both")
    return [draft]


def _judged_by(draft: Draft, pair: Pair, statement: str) -> tuple[str, dict[str, str]]:
    """The prompt for a statement, with the truth as a hint where the paper gives it."""
    match pair.task:
        case "qa":
            context = f"\n<<<CONTEXT\n{as_data(pair.context)}\nCONTEXT>>>\n" if pair.context else ""
            told = {"question": as_data(pair.question), "answer": as_data(pair.right), "statement": as_data(statement)}
            return "filter_qa", {"context": context, **told}
        case "summarization":
            end = len(statement) - (len(pair.summary) - pair.start - len(pair.right))
            return "filter_summary", {
                "original": as_data(pair.right),
                "rewritten": as_data(statement[pair.start : end]),
            }
    return "filter_context", {"text": as_data(context_of(draft, pair)), "statement": as_data(statement)}


def read(reply: str) -> bool | None:
    """YES or NO and nothing else; None for any other reply."""
    return {"yes": True, "no": False}.get(reply.strip().strip(".!*'\"").casefold())


def _check_read(reply: str) -> None:
    if read(reply) is None:
        raise BrokenReply(f"The filter answered neither YES nor NO: {reply.strip()[:200]!r}")


def context_of(draft: Draft, pair: Pair) -> str:
    """The context of a pair's statements."""
    return str(draft.record.content[pair.field]) if pair.field else pair.context


# --------------------------------------------------------------------------------------------------------------- split


async def split(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """One draft for each of the two statements."""
    return [replace(draft, data={**draft.data, "label": label}) for label in (FACTUAL, NON_FACTUAL)]


async def keep(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """A statement by itself is ready to become a sample."""
    return [draft]


# ------------------------------------------------------------------------------------------------------------ estimate


def asks_of_write(draft: Draft) -> Sequence[tuple[str, str]]:
    """What is asked of the generator for a record of this kind."""
    match draft.record.content["kind"]:
        case qa.KIND:
            return [("generator", prompt_of(draft, "state_qa").label)] * 2
        case ie.KIND:
            return [("generator", prompt_of(draft, "state_value").label)] * 2 * _pairs(draft)
        case summaries.KIND:
            return [("generator", prompt_of(draft, "alter").label)] * _pairs(draft)
    return ()


def asks_of_judge(draft: Draft) -> Sequence[tuple[str, str]]:
    """What is asked of the filter for a record of this kind."""
    match draft.record.content["kind"]:
        case qa.KIND:
            return [("filter", prompt_of(draft, "filter_qa").label)] * 2
        case summaries.KIND:
            return [("filter", prompt_of(draft, "filter_summary").label)] * _pairs(draft)
    return [("filter", prompt_of(draft, "filter_context").label)] * 2 * _pairs(draft)


def _pairs(draft: Draft) -> int:
    settings, content = presets.settings(draft), draft.record.content
    match content["kind"]:
        case ie.KIND:
            return len(ie.wanted(content, draft.record.external_id, settings))
        case summaries.KIND:
            return sum(not pair.out for pair in summaries.pairs(content, draft.record.external_id, settings))
    return 1
