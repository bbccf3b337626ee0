"""How MHB makes a sample: one call plants the traps and writes the rubric (the paper's 'Dataset Curation Process').

Dialogue (MHB-2): turns of both speakers are restructured and a bait question ends the conversation. Report (MHB-3): the
text stays as it is and a question is asked that it cannot answer. What is not valid is refused with the reason, which the
gateway shows to the generator (MHB-5).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Field

from generation.checks import leak
from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.types import Request
from generation.recipe import (
    Check,
    Draft,
    Finding,
    ModelRole,
    Models,
    NewRubric,
    NewSample,
    Prompt,
    Recipe,
    Record,
    Term,
    each,
    read_prompts,
)
from mhb_site.benchmarks.mhb.plan import PAPER
from mhb_site.benchmarks.mhb.taxonomy import subtypes

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "inject_dialogue", "question_report", "answerable_report")
INJECT_DIALOGUE = SETS[""]["inject_dialogue"]
QUESTION_REPORT = SETS[""]["question_report"]
ANSWERABLE_REPORT = SETS[""]["answerable_report"]

# Our settings: the paper names no limits. They keep a runaway reply from physicians, and the prompts state them.
MAX_TRAPS = 4
MAX_CRITERIA = 12
MAX_QUESTION = 2_000  # characters of the bait or of the question on a report
MAX_FIELD = 1_000  # characters of a criterion and of each text about a trap
MAX_ADDED_TURNS = 6
MAX_SPECIALTY = 100
MAX_GROWTH = 8_000  # characters that an altered conversation may have more than its source

# Of a criterion nearly all must stand in the text to give it away: it names the false element, as the text does. What is true
# instead has no business there, so that half of it is enough.
CRITERION_SHARE = 0.85
WHY_SHARE = 0.5


# The docstrings of the shapes go to the generator, as descriptions in the JSON schema of its reply.
class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Turn(_Strict):
    """One turn of the altered conversation."""

    role: Literal["user", "assistant"]
    content: str


class Trap(_Strict):
    """A planted trap: its subtype, its place, what is false there, and why it is."""

    code: str
    where: str
    what: str = Field(alias="false")  # its name in JSON, in the schema and in the prompts
    why: str


class Criterion(_Strict):
    """What a non-hallucinating answer must do, and the codes of the traps that this tests."""

    criterion: str
    traps: list[str]


class AlteredDialogue(_Strict):
    """The complete altered conversation, its traps and its rubric."""

    turns: list[Turn]
    traps: list[Trap]
    rubrics: list[Criterion]


class ReportQuestion(_Strict):
    """A question on the report, its traps and its rubric. `report` is null: the report is not altered."""

    report: str | None = None  # asked for at all so that an altered report is refused with its reason (MHB-5)
    question: str
    traps: list[Trap]
    rubrics: list[Criterion]


class Answerable(_Strict):
    """Whether the report answers the question, the answer, and the words of the report that give it."""

    answerable: bool
    answer: str
    where: str


# ------------------------------------------------------------------------------------------------------------- checks


def check_dialogue(made: AlteredDialogue, source: Sequence[Mapping[str, str]], terms: Sequence[Term]) -> None:
    """Raises BrokenReply with everything that is wrong with an altered conversation, in sentences for the generator."""
    _refuse(_dialogue_faults(made, source), _plan_faults(made.traps, made.rubrics, terms))


def check_report(made: ReportQuestion, source: str, terms: Sequence[Term]) -> None:
    """Raises BrokenReply with everything that is wrong with a question on a report."""
    _refuse(_report_faults(made, source), _plan_faults(made.traps, made.rubrics, terms))


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


# --------------------------------------------------------------------------------------------------------------- step


async def inject(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the generator for traps, altered conversation or question, and rubric, in one call (MHB-4)."""
    content = draft.record.content
    if content["kind"] == "dialogue":
        source = [{"role": turn["role"], "content": turn["content"]} for turn in content["turns"]]
        altered = await models.ask_structured(
            "generator",
            _request("inject_dialogue", draft, source),
            AlteredDialogue,
            check=partial(check_dialogue, source=source, terms=draft.terms),
        )
        made = {
            "task": "dialogue",
            "source_turns": source,
            "turns": [{"role": turn.role, "content": turn.content.strip()} for turn in altered.turns],
        }
        traps, rubrics = altered.traps, altered.rubrics
    else:
        asked = await models.ask_structured(
            "generator",
            _request("question_report", draft, content["text"]),
            ReportQuestion,
            check=partial(check_report, source=content["text"], terms=draft.terms),
        )
        made = {"task": "report", "report": content["text"], "question": asked.question.strip()}
        traps, rubrics = asked.traps, asked.rubrics
    known = subtypes(draft.terms)
    # The name as it was when the trap was planted: an admin's own terms can be renamed later.
    made["traps"] = [{**trap.model_dump(by_alias=True), "name": known[trap.code].label} for trap in traps]
    kept = [{"criterion": rubric.criterion.strip(), "traps": rubric.traps} for rubric in rubrics]
    [(_role, label)] = _injecting(draft)
    return [replace(draft, data={"content": made, "rubrics": kept, "prompt": label})]


def _injecting(draft: Draft) -> Sequence[tuple[str, str]]:
    name = "inject_dialogue" if draft.record.content["kind"] == "dialogue" else "question_report"
    return (("generator", _prompt(draft, name).label),)


def _prompt(draft: Draft, name: str) -> Prompt:
    return SETS[draft.prompts][name]


def _request(name: str, draft: Draft, source: object) -> Request:
    prompt = _prompt(draft, name)
    # Of the record only the text itself goes out: never its grader's rubrics, its ideal completion or its canary.
    messages = prompt.messages(
        taxonomy=_listed(draft.terms),
        source=as_data(source),
        rejected=as_data(_rejected(draft)),
        preferred=as_data(_preferred(draft)),
        max_traps=str(MAX_TRAPS),
        max_criteria=str(MAX_CRITERIA),
        max_question=str(MAX_QUESTION),
        max_field=str(MAX_FIELD),
        max_added_turns=str(MAX_ADDED_TURNS),
        max_growth=str(MAX_GROWTH),
    )
    return Request(messages, prompt=prompt.label)


def _listed(terms: Sequence[Term]) -> str:
    """The taxonomy in force, clusters as headings, a subtype on each line."""
    lines: list[str] = []
    for cluster in (term for term in terms if not term.parent):
        lines.append(f"{cluster.code} {cluster.label}: {cluster.definition}")
        lines += [f"- {term.code} {term.label}: {term.definition}" for term in terms if term.parent == cluster.code]
    return "\n".join(lines)


def _rejected(draft: Draft) -> dict[str, Any] | None:
    """The rejected version without the source, which the generator has beside it, and the physicians' reasons (MHB-9)."""
    if draft.previous is None:
        return None
    kept = {key: draft.previous[key] for key in ("turns", "question", "traps", "rubrics") if key in draft.previous}
    return {"version": kept, "reasons": list(draft.reasons)}


def _preferred(draft: Draft) -> list[str] | None:
    """The trap types that the plan would like here; a type that has left the taxonomy since is no longer asked for."""
    known = subtypes(draft.terms)
    return [f"{code} {known[code].label}" for code in draft.preferred if code in known] or None


async def answerable(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask whether the report answers the question after all (MHB-3: it must not)."""
    content = draft.data["content"]
    prompt = _prompt(draft, "answerable_report")
    messages = prompt.messages(report=as_data(content["report"]), question=as_data(content["question"]))
    found = await models.ask_structured("checker", Request(messages, prompt=prompt.label), Answerable)
    return [replace(draft, data={**draft.data, "answerable": found.model_dump()})]


def _checking(draft: Draft) -> Sequence[tuple[str, str]]:
    return (("checker", _prompt(draft, "answerable_report").label),)


def _is_to_be_asked(draft: Draft) -> bool:
    return "answerable" in draft.checks and draft.record.content["kind"] == "report"


# ------------------------------------------------------------------------------------------------- checks of what is made


def answered_by_the_report(draft: Draft) -> Finding | None:
    """What the checker said, where it found an answer."""
    said = draft.data.get("answerable")
    if not said or not said["answerable"]:
        return None
    return Finding("answerable", f"{said['answer'][:MAX_FIELD]} [{said['where'][:MAX_FIELD]}]")


def gives_itself_away(draft: Draft) -> Finding | None:
    """A criterion, or what is true instead of the trap, that stands in the text which models are given."""
    content = draft.data["content"]
    if content["task"] == "dialogue":
        text, source = _spoken(content["turns"]), _spoken(content["source_turns"])
    else:
        text, source = content["question"], content["report"]
    described = [(rubric["criterion"], CRITERION_SHARE) for rubric in draft.data["rubrics"]]
    described += [(trap["why"], WHY_SHARE) for trap in content["traps"]]
    for words, share in described:
        found = leak(words, text, besides=source, share=share)
        if found is not None:
            return Finding("leak", f"“{found.words}” ({words})")
    return None


def compared(made: NewSample) -> str:
    """The text that no two samples may share: what a model under test is given."""
    content = made.content
    if made.task == "dialogue":
        return _spoken(content["turns"])
    return f"{content['report']}\n{content['question']}"


def _spoken(turns: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(turn["content"] for turn in turns)


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    content, dialogue: {task, source_turns: [{role, content}], turns: [{role, content}] ending in the bait, traps};
    report: {task, report, question, traps}. traps: [{code, name, where, false, why}].
    """
    content = draft.data["content"]
    return NewSample(
        task=content["task"],
        title=draft.record.title,
        language=draft.record.language,
        content=content,
        specialty=_specialty(draft.record),
        rubrics=tuple(
            NewRubric(f"R{number}", rubric["criterion"], tuple(dict.fromkeys(rubric["traps"])))
            for number, rubric in enumerate(draft.data["rubrics"], 1)
        ),
        prompt=draft.data.get("prompt", ""),
    )


def _specialty(record: Record) -> str:
    """The medical specialty that the record itself names. Neither HealthBench nor PMC-Patients does."""
    named = record.content.get("specialty")
    return named.strip()[:MAX_SPECIALTY] if isinstance(named, str) else ""


RECIPE = Recipe(
    label=_("MHB: hallucination traps"),
    kinds=frozenset({"dialogue", "report"}),
    # The paper: Gemini 2.5 Pro "configured with default hyperparameters", so nothing is set here.
    roles=(
        ModelRole("generator", _("Generator: plants the traps and writes the rubrics")),
        ModelRole("checker", _("Checker: tries to answer the questions on reports"), default="generator"),
    ),
    steps=(each(inject, asks=_injecting), each(answerable, applies=_is_to_be_asked, asks=_checking)),
    sample=sample,
    max_versions=3,
    checks=(
        Check("leak", _("The text gives its trap away"), gives_itself_away),
        Check("answerable", _("The report answers the question"), answered_by_the_report),
    ),
    compared=compared,
    plans=(PAPER,),
    prompt_sets=tuple(name for name in SETS if name),
)
