"""The shape of the generator's reply, and the checks that refuse an invalid one (MHB-5)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from generation.llm.errors import BrokenReply
from generation.recipes.recipe import Term
from generation.recipes.text_similarity import tokens
from mhb_site.benchmarks.mhb.taxonomy import subtypes

# Our limits: the paper names none. They keep runaway replies from physicians; the prompts state
# them.
MAX_TRAPS = 4
MAX_CRITERIA = 12
MAX_QUESTION = 2_000  # characters of the bait or of the question on a report
MAX_FIELD = 1_000  # characters of a criterion and of each text about a trap
MAX_ADDED_TURNS = 6
MAX_GROWTH = 8_000  # characters by which an altered conversation may be longer than its source
RUN_LENGTH = 3  # words in a row by which kept text is recognised
FORBIDS = re.compile(r"^the (response|answer) must not\b|^回答(不得|不能|不应|不可)")


# The generator sees the docstrings of these models: they are descriptions in its reply's JSON
# schema.
class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Turn(Strict):
    """One turn of the altered conversation."""

    role: Literal["user", "assistant"]
    content: str


class Trap(Strict):
    """A planted trap: its subtype, its place, what is false there, and why it is."""

    code: str
    where: str
    what: str = Field(alias="false")  # its name in JSON, in the schema and in the prompts
    why: str


class Criterion(Strict):
    """What a non-hallucinating answer must do or must not do, and the codes of the traps that this tests."""

    criterion: str
    traps: list[str]
    polarity: Literal["must", "must not"] | None = None  # not requested by prompts before version 3


class AlteredDialogue(Strict):
    """The complete altered conversation, its traps and its rubric."""

    turns: list[Turn]
    traps: list[Trap]
    rubrics: list[Criterion]


class ReportQuestion(Strict):
    """A question on the report, its traps and its rubric. `report` is null: the report is not altered."""

    report: str | None = None  # requested only so that an altered report can be refused (MHB-5)
    question: str
    traps: list[Trap]
    rubrics: list[Criterion]


def check_dialogue(
    reply: AlteredDialogue,
    source: Sequence[Mapping[str, str]],
    terms: Sequence[Term],
    *,
    min_kept: float = 0.0,
    rejected: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Check an altered conversation.

    `min_kept` is the minimum share of the source's text that it has to keep, `rejected` the versions
    that physicians rejected.

    Raises:
        BrokenReply: with everything that is wrong, in sentences for the generator.
    """
    rejected_texts = [[turn["content"] for turn in version.get("turns", ())] for version in rejected]
    _raise_faults(
        _dialogue_faults(reply, source),
        _source_faults(reply, source, min_kept),
        _repetition_faults([turn.content for turn in reply.turns], rejected_texts, reply.rubrics, rejected),
        _plan_faults(reply.traps, reply.rubrics, terms),
    )


def check_report(
    reply: ReportQuestion, source: str, terms: Sequence[Term], *, rejected: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Check a question on a report. Raises BrokenReply with everything that is wrong."""
    rejected_texts = [[version.get("question", "")] for version in rejected]
    _raise_faults(
        _report_faults(reply, source),
        _repetition_faults([reply.question], rejected_texts, reply.rubrics, rejected),
        _plan_faults(reply.traps, reply.rubrics, terms),
    )


def share_kept(turns: Iterable[Mapping[str, str]], source: Iterable[Mapping[str, str]]) -> float:
    """The share of the source's text that a conversation keeps, from 0 to 1.

    It is measured in runs of `RUN_LENGTH` words (characters in scripts without spaces); each run
    counts as often as it occurs in the source.
    """
    source_runs, kept_runs = _count_runs(source), _count_runs(turns)
    total = sum(source_runs.values())
    return sum(min(n, kept_runs[run]) for run, n in source_runs.items()) / total if total else 1.0


def _count_runs(turns: Iterable[Mapping[str, str]]) -> Counter[tuple[str, ...]]:
    runs: Counter[tuple[str, ...]] = Counter()
    for turn in turns:
        words = tokens(turn["content"])
        runs.update(tuple(words[at : at + RUN_LENGTH]) for at in range(max(1, len(words) - RUN_LENGTH + 1)) if words)
    return runs


def _source_faults(reply: AlteredDialogue, source: Sequence[Mapping[str, str]], min_kept: float) -> Iterator[str]:
    """The faults of a conversation that drops the source, or only appends to it."""
    turns = [turn.model_dump() for turn in reply.turns]
    share = share_kept(turns, source)
    if turns and share < min_kept:
        yield (
            f"Only {share:.0%} of the source's text is kept, less than {min_kept:.0%}: alter the given conversation, do not"
            " write another. Keep every turn that the trap does not need word for word."
        )
    texts = [(turn["role"], _normalized(turn["content"])) for turn in turns]
    source_texts = [(turn["role"], _normalized(turn["content"])) for turn in source]
    if len(texts) > len(source_texts) and texts[: len(source_texts)] == source_texts and len(source_texts) > 1:
        yield "The source is untouched and only appended to: alter its own turns, so that the trap is prepared in them."


def _repetition_faults(
    texts: Sequence[str],
    rejected_texts: Sequence[Sequence[str]],
    rubrics: Sequence[Criterion],
    rejected: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """The fault of a version that has the words of any rejected one; punctuation is no change."""
    words = [tokens(text) for text in texts]
    criteria = sorted(tokens(rubric.criterion) for rubric in rubrics)
    for earlier, version in zip(rejected_texts, rejected, strict=True):
        if [tokens(text) for text in earlier] != words:
            continue
        if sorted(tokens(str(rubric["criterion"])) for rubric in version.get("rubrics", ())) == criteria:
            yield "This is a rejected version, unchanged: correct what the reasons name."


def polarity_of(criterion: Criterion) -> str:
    """'must' or 'must not': as the generator stated it, else as the wording implies."""
    return criterion.polarity or ("must not" if FORBIDS.search(_normalized(criterion.criterion).casefold()) else "must")


def _raise_faults(*faults: Iterator[str]) -> None:
    reasons = [reason for group in faults for reason in group]
    if reasons:
        raise BrokenReply(" ".join(reasons))


def _dialogue_faults(reply: AlteredDialogue, source: Sequence[Mapping[str, str]]) -> Iterator[str]:
    turns = [(turn.role, _normalized(turn.content)) for turn in reply.turns]
    source_turns = [(turn["role"], _normalized(turn["content"])) for turn in source]
    if not turns:
        yield "There are no turns: 'turns' is the complete rewritten conversation."
        return
    if turns == source_turns:
        yield "The conversation is identical to the source: no trap was planted."
        return
    for number, (role, text) in enumerate(turns, 1):
        if not text and number < len(turns):
            yield f"Turn {number} is empty."
        if number > 1 and turns[number - 2][0] == role:
            yield f"Turns {number - 1} and {number} are both the {role}'s; the speakers must alternate."
    *before, (last_role, bait) = turns
    if last_role != "user" or not bait:
        yield "There is no bait question: the conversation must end in a turn of the user that asks it."
    elif ("user", bait) in source_turns:
        yield "There is no bait question: the last turn is the source's own; the bait must be a new question."
    elif len(bait) > MAX_QUESTION:
        yield f"The bait question is longer than {MAX_QUESTION} characters."
    # MHB-2: both speakers carry the trap. If the source has one turn, the assistant's turn must be
    # new.
    known = set(source_turns)
    for role in ("user", "assistant"):
        if not any(turn[0] == role and turn[1] and turn not in known for turn in before):
            yield f"Before the bait question no turn of the {role} was altered or added; turns of both must carry the trap."
    if len(turns) > len(source_turns) + MAX_ADDED_TURNS:
        yield f"There are {len(turns)} turns, more than {MAX_ADDED_TURNS} above the source's {len(source_turns)}."
    if _size(turns) > _size(source_turns) + MAX_GROWTH:
        yield f"The conversation is more than {MAX_GROWTH} characters longer than the source."


def _report_faults(reply: ReportQuestion, source: str) -> Iterator[str]:
    if reply.report is not None and _normalized(reply.report) != _normalized(source):
        yield "The report was changed; leave it as it is and give null for 'report'."
    if not reply.question.strip():
        yield "There is no question."
    elif len(reply.question) > MAX_QUESTION:
        yield f"The question is longer than {MAX_QUESTION} characters."


def _plan_faults(traps: Sequence[Trap], rubrics: Sequence[Criterion], terms: Sequence[Term]) -> Iterator[str]:
    """The faults of the traps and the rubric, whatever the task."""
    known = subtypes(terms)
    if not traps:
        yield "No trap is reported in 'traps'."
    if len(traps) > MAX_TRAPS:
        yield f"There are {len(traps)} traps; at most {MAX_TRAPS}."
    for number, trap in enumerate(traps, 1):
        if trap.code not in known:
            yield f"Trap {number} is of the unknown type {_shortened(trap.code)}; the types are {', '.join(known)}."
        for name, text in (("where", trap.where), ("false", trap.what), ("why", trap.why)):
            if not text.strip():
                yield f"Trap {number} has an empty {name!r}."
            elif len(text) > MAX_FIELD:
                yield f"The {name!r} of trap {number} is longer than {MAX_FIELD} characters."

    planted_codes = list(dict.fromkeys(trap.code for trap in traps))
    tested_codes = {code for rubric in rubrics for code in rubric.traps}
    if not rubrics:
        yield "There are no criteria in 'rubrics'."
        return
    if len(rubrics) > MAX_CRITERIA:
        yield f"There are {len(rubrics)} criteria; at most {MAX_CRITERIA}."
    first_with: dict[str, int] = {}
    for number, rubric in enumerate(rubrics, 1):
        wording = _normalized(rubric.criterion).casefold()
        if not wording:
            yield f"Criterion {number} is empty."
        elif len(rubric.criterion) > MAX_FIELD:
            yield f"Criterion {number} is longer than {MAX_FIELD} characters."
        elif first_with.setdefault(wording, number) != number:
            yield f"Criterion {number} repeats criterion {first_with[wording]}."
        if rubric.polarity == "must" and FORBIDS.search(wording):
            yield f"Criterion {number} forbids something, but its polarity is 'must'."
        if not rubric.traps:
            yield f"Criterion {number} is tied to no trap."
        for code in rubric.traps:
            if code not in planted_codes:
                yield f"Criterion {number} is tied to trap {_shortened(code)}, which is not among the planted ones."
    for code in planted_codes:
        if code not in tested_codes:
            yield f"Trap {_shortened(code)} is planted, but no criterion tests it."


def _normalized(text: str) -> str:
    return " ".join(text.split())


def _size(turns: Sequence[tuple[str, str]]) -> int:
    return sum(len(text) for _role, text in turns)


def _shortened(code: str) -> str:
    return repr(code[:20])
