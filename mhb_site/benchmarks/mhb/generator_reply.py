"""What the generator returns, and the checks that refuse what is invalid (MHB-5)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from generation.llm.errors import BrokenReply
from generation.recipes.recipe import Term
from generation.recipes.text_similarity import tokens
from mhb_site.benchmarks.mhb.taxonomy import subtypes

# Our settings: the paper names no limits. They keep a runaway reply from physicians, and the prompts state them.
MAX_TRAPS = 4
MAX_CRITERIA = 12
MAX_QUESTION = 2_000  # characters of the bait or of the question on a report
MAX_FIELD = 1_000  # characters of a criterion and of each text about a trap
MAX_ADDED_TURNS = 6
MAX_GROWTH = 8_000  # characters that an altered conversation may have more than its source
RUN = 3  # words in a row by which kept text is recognised
FORBIDS = re.compile(r"^the (response|answer) must not\b|^回答(不得|不能|不应|不可)")


# The docstrings of the shapes go to the generator, as descriptions in the JSON schema of its reply.
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
    polarity: Literal["must", "must not"] | None = None  # prompts before version 3 do not ask for it


class AlteredDialogue(Strict):
    """The complete altered conversation, its traps and its rubric."""

    turns: list[Turn]
    traps: list[Trap]
    rubrics: list[Criterion]


class ReportQuestion(Strict):
    """A question on the report, its traps and its rubric. `report` is null: the report is not altered."""

    report: str | None = None  # asked for at all so that an altered report is refused with its reason (MHB-5)
    question: str
    traps: list[Trap]
    rubrics: list[Criterion]


def check_dialogue(
    made: AlteredDialogue,
    source: Sequence[Mapping[str, str]],
    terms: Sequence[Term],
    *,
    kept: float = 0.0,
    rejected: Mapping[str, Any] | None = None,
) -> None:
    """Raises BrokenReply with everything that is wrong with an altered conversation, in sentences for the generator.

    `kept`: the least share of the source's text that has to stand in it. `rejected`: the version that physicians rejected.
    """
    stimulus = [_squeezed(turn.content) for turn in made.turns]
    told = [_squeezed(turn["content"]) for turn in rejected.get("turns", ())] if rejected else []
    _refuse(
        _dialogue_faults(made, source),
        _source_faults(made, source, kept),
        _repeated(stimulus, told, made.rubrics, rejected),
        _plan_faults(made.traps, made.rubrics, terms),
    )


def check_report(
    made: ReportQuestion, source: str, terms: Sequence[Term], *, rejected: Mapping[str, Any] | None = None
) -> None:
    """Raises BrokenReply with everything that is wrong with a question on a report."""
    told = [_squeezed(rejected.get("question", ""))] if rejected else []
    _refuse(
        _report_faults(made, source),
        _repeated([_squeezed(made.question)], told, made.rubrics, rejected),
        _plan_faults(made.traps, made.rubrics, terms),
    )


def share_kept(turns: Iterable[Mapping[str, str]], source: Iterable[Mapping[str, str]]) -> float:
    """The share of the source's text that stands in a conversation, from 0 to 1: of its runs of `RUN` words (a character each
    in scripts without spaces), counted as often as they stand in the source."""
    given, there = _runs_of(source), _runs_of(turns)
    whole = sum(given.values())
    return sum(min(n, there[run]) for run, n in given.items()) / whole if whole else 1.0


def _runs_of(turns: Iterable[Mapping[str, str]]) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for turn in turns:
        words = tokens(turn["content"])
        found.update(tuple(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1)) if words)
    return found


def _source_faults(made: AlteredDialogue, source: Sequence[Mapping[str, str]], kept: float) -> Iterator[str]:
    """A conversation that is not the source's, or is the source's with something appended."""
    turns = [turn.model_dump() for turn in made.turns]
    share = share_kept(turns, source)
    if turns and share < kept:
        yield (
            f"Only {share:.0%} of the source's text is kept, less than {kept:.0%}: alter the given conversation, do not"
            " write another. Keep every turn that the trap does not need word for word."
        )
    said = [(turn["role"], _squeezed(turn["content"])) for turn in turns]
    given = [(turn["role"], _squeezed(turn["content"])) for turn in source]
    if len(said) > len(given) and said[: len(given)] == given and len(given) > 1:
        yield "The source is untouched and only appended to: alter its own turns, so that the trap is prepared in them."


def _repeated(
    stimulus: Sequence[str], told: Sequence[str], rubrics: Sequence[Criterion], rejected: Mapping[str, Any] | None
) -> Iterator[str]:
    if rejected is None or list(stimulus) != list(told):
        return
    before = {_squeezed(str(rubric["criterion"])).casefold() for rubric in rejected.get("rubrics", ())}
    if before == {_squeezed(rubric.criterion).casefold() for rubric in rubrics}:
        yield "This is the version that was rejected, unchanged: mend what the reasons name."


def polarity_of(criterion: Criterion) -> str:
    """'must' or 'must not': what the generator said, else what its wording says."""
    return criterion.polarity or ("must not" if FORBIDS.search(_squeezed(criterion.criterion).casefold()) else "must")


def _refuse(*faults: Iterator[str]) -> None:
    reasons = [reason for some in faults for reason in some]
    if reasons:
        raise BrokenReply(" ".join(reasons))


def _dialogue_faults(made: AlteredDialogue, source: Sequence[Mapping[str, str]]) -> Iterator[str]:
    turns = [(turn.role, _squeezed(turn.content)) for turn in made.turns]
    given = [(turn["role"], _squeezed(turn["content"])) for turn in source]
    if not turns:
        yield "There are no turns: 'turns' is the complete rewritten conversation."
        return
    if turns == given:
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
    elif ("user", bait) in given:
        yield "There is no bait question: the last turn is the source's own; the bait must be a new question."
    elif len(bait) > MAX_QUESTION:
        yield f"The bait question is longer than {MAX_QUESTION} characters."
    # MHB-2: both sides carry the trap. With a source of one turn the assistant's can only have been added.
    known = set(given)
    for role in ("user", "assistant"):
        if not any(turn[0] == role and turn[1] and turn not in known for turn in before):
            yield f"Before the bait question no turn of the {role} was altered or added; turns of both must carry the trap."
    if len(turns) > len(given) + MAX_ADDED_TURNS:
        yield f"There are {len(turns)} turns, more than {MAX_ADDED_TURNS} above the source's {len(given)}."
    if _size(turns) > _size(given) + MAX_GROWTH:
        yield f"The conversation is more than {MAX_GROWTH} characters longer than the source."


def _report_faults(made: ReportQuestion, source: str) -> Iterator[str]:
    if made.report is not None and _squeezed(made.report) != _squeezed(source):
        yield "The report was changed; leave it as it is and give null for 'report'."
    if not made.question.strip():
        yield "There is no question."
    elif len(made.question) > MAX_QUESTION:
        yield f"The question is longer than {MAX_QUESTION} characters."


def _plan_faults(traps: Sequence[Trap], rubrics: Sequence[Criterion], terms: Sequence[Term]) -> Iterator[str]:
    """What is wrong with the traps and the rubric, whatever the task."""
    known = subtypes(terms)
    if not traps:
        yield "No trap is reported in 'traps'."
    if len(traps) > MAX_TRAPS:
        yield f"There are {len(traps)} traps; at most {MAX_TRAPS}."
    for number, trap in enumerate(traps, 1):
        if trap.code not in known:
            yield f"Trap {number} is of the unknown type {_cut(trap.code)}; the types are {', '.join(known)}."
        for name, text in (("where", trap.where), ("false", trap.what), ("why", trap.why)):
            if not text.strip():
                yield f"Trap {number} has an empty {name!r}."
            elif len(text) > MAX_FIELD:
                yield f"The {name!r} of trap {number} is longer than {MAX_FIELD} characters."

    planted = list(dict.fromkeys(trap.code for trap in traps))
    tested = {code for rubric in rubrics for code in rubric.traps}
    if not rubrics:
        yield "There are no criteria in 'rubrics'."
        return
    if len(rubrics) > MAX_CRITERIA:
        yield f"There are {len(rubrics)} criteria; at most {MAX_CRITERIA}."
    first_with: dict[str, int] = {}
    for number, rubric in enumerate(rubrics, 1):
        wording = _squeezed(rubric.criterion).casefold()
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
            if code not in planted:
                yield f"Criterion {number} is tied to trap {_cut(code)}, which is not among the planted ones."
    for code in planted:
        if code not in tested:
            yield f"Trap {_cut(code)} is planted, but no criterion tests it."


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _size(turns: Sequence[tuple[str, str]]) -> int:
    return sum(len(text) for _role, text in turns)


def _cut(code: str) -> str:
    return repr(code[:20])
