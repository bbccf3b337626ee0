"""MHB's recipe: traps injected into dialogues, questions put to reports (paper, section 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from generation.llm.fencing import as_data
from generation.llm.types import Request
from generation.recipes.prompts import Prompt, read_prompts
from generation.recipes.recipe import (
    Check,
    Draft,
    Finding,
    ModelRole,
    Models,
    NewRubric,
    NewSample,
    Preset,
    Recipe,
    Record,
    Term,
    each,
)
from generation.recipes.text_similarity import alike, leak
from mhb_site.benchmarks.mhb import control, examiner
from mhb_site.benchmarks.mhb.generator_reply import (
    MAX_ADDED_TURNS,
    MAX_CRITERIA,
    MAX_FIELD,
    MAX_GROWTH,
    MAX_QUESTION,
    MAX_TRAPS,
    AlteredDialogue,
    ReportQuestion,
    Strict,
    check_dialogue,
    check_report,
    polarity_of,
    share_kept,
)
from mhb_site.benchmarks.mhb.plan import PAPER
from mhb_site.benchmarks.mhb.taxonomy import MULTIMODAL, subtypes
from review.rules.blocks import Block, Text

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "inject_dialogue", "question_report", "answerable_report")
INJECT_DIALOGUE = SETS[""]["inject_dialogue"]
QUESTION_REPORT = SETS[""]["question_report"]
ANSWERABLE_REPORT = SETS[""]["answerable_report"]

MAX_SPECIALTY = 100

# Of a criterion nearly all must stand in the text to give it away: it names the false element, as the text does. What is true
# instead has no business there, so that half of it is enough.
CRITERION_SHARE = 0.85
WHY_SHARE = 0.5
RESTATED_FROM = 0.85  # of their words, two criteria have in common

# `kept`: the least share of a conversation's text that is kept. Ours: the paper "restructures" turns and names no bound.
# `controls`: each sample gets a control beside it (`control.py`).
SETTINGS: Mapping[str, Any] = {"kept": 0.5, "controls": False}


class Answerable(Strict):
    """Whether the report answers the question, the answer, and the words of the report that give it."""

    answerable: bool
    answer: str
    where: str


async def inject(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the generator for traps, altered conversation or question, and rubric, in one call (MHB-4)."""
    content = draft.record.content
    if content["kind"] == "dialogue":
        source = [{"role": turn["role"], "content": turn["content"]} for turn in content["turns"]]
        altered = await models.ask_structured(
            "generator",
            _request("inject_dialogue", draft, source),
            AlteredDialogue,
            check=partial(
                check_dialogue, source=source, terms=offered(draft), kept=least_kept(draft), rejected=draft.previous
            ),
        )
        made: dict[str, Any] = {
            "task": _("dialogue"),
            "source_turns": source,
            "turns": [{"role": turn.role, "content": turn.content.strip()} for turn in altered.turns],
        }
        traps, rubrics = altered.traps, altered.rubrics
    else:
        asked = await models.ask_structured(
            "generator",
            _request("question_report", draft, content["text"]),
            ReportQuestion,
            check=partial(check_report, source=content["text"], terms=offered(draft), rejected=draft.previous),
        )
        made = {"task": _("report"), "report": content["text"], "question": asked.question.strip()}
        traps, rubrics = asked.traps, asked.rubrics
    known = subtypes(draft.terms)
    # The name as it was when the trap was planted: an admin's own terms can be renamed later.
    made["traps"] = [{**trap.model_dump(by_alias=True), "name": known[trap.code].label} for trap in traps]
    kept = [
        {"criterion": rubric.criterion.strip(), "traps": rubric.traps, "polarity": polarity_of(rubric)}
        for rubric in rubrics
    ]
    [(_role, label)] = _injecting(draft)
    data: dict[str, Any] = {"content": made, "rubrics": kept, "prompt": label}
    if made["task"] == "dialogue":
        data["kept"] = {"share": round(share_kept(made["turns"], made["source_turns"]), 4), "least": least_kept(draft)}
    return [replace(draft, data=data)]


def least_kept(draft: Draft) -> float:
    """The least share of a conversation's text that its altered version has to keep."""
    return float(draft.settings.get("kept", SETTINGS["kept"]))


def offered(draft: Draft) -> tuple[Term, ...]:
    """The taxonomy for this record: traps of image and text only where there is an image."""
    content = draft.record.content
    has_image = bool(content.get("images") or content.get("image"))
    return tuple(term for term in draft.terms if has_image or term.code != MULTIMODAL)


def _injecting(draft: Draft) -> Sequence[tuple[str, str]]:
    name = "inject_dialogue" if draft.record.content["kind"] == "dialogue" else "question_report"
    return (("generator", _prompt(draft, name).label),)


def _prompt(draft: Draft, name: str) -> Prompt:
    return SETS[draft.prompts][name]


def _request(name: str, draft: Draft, source: object) -> Request:
    prompt = _prompt(draft, name)
    # Of the record only the text itself goes out: never its grader's rubrics, its ideal completion or its canary.
    messages = prompt.messages(
        taxonomy=_listed(offered(draft)),
        source=as_data(source),
        rejected=as_data(_rejected(draft)),
        preferred=as_data(_preferred(draft)),
        max_traps=str(MAX_TRAPS),
        max_criteria=str(MAX_CRITERIA),
        max_question=str(MAX_QUESTION),
        max_field=str(MAX_FIELD),
        max_added_turns=str(MAX_ADDED_TURNS),
        max_growth=str(MAX_GROWTH),
        min_kept=f"{least_kept(draft):.0%}",
        examples=_examples(offered(draft)),
    )
    return Request(messages, prompt=prompt.label)


def _examples(terms: Sequence[Term]) -> str:
    """One good and one bad example of each subtype that has some: an admin's own has none."""
    known = subtypes(terms)
    lines = (Path(__file__).parent / "subtype_examples.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(f"- {line}" for line in lines if line.partition(" ")[0] in known)


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
    known = subtypes(offered(draft))
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
            NewRubric(
                f"R{number}",
                rubric["criterion"],
                tuple(dict.fromkeys(rubric["traps"])),
                polarity=rubric.get("polarity", ""),
            )
            for number, rubric in enumerate(draft.data["rubrics"], 1)
        ),
        prompt=draft.data.get("prompt", ""),
        made=_told(draft),
    )


def _told(draft: Draft) -> dict[str, str]:
    """What the data card counts: the themes that HealthBench names in its tags, and how much of the source was kept."""
    tags = draft.record.content.get("tags") or ()
    themes = [tag.removeprefix("theme:") for tag in tags if isinstance(tag, str) and tag.startswith("theme:")]
    told = {_("theme"): ", ".join(themes)} if themes else {}
    if kept := draft.data.get("kept"):
        tenth = min(int(kept["share"] * 10), 9) * 10
        told[_("text kept")] = f"{tenth}–{tenth + 10} %"
    return told


def restated(draft: Draft) -> Finding | None:
    """Two criteria of one polarity on the same traps that say nearly the same."""
    rubrics = draft.data["rubrics"]
    for (at, one), (there, other) in combinations(enumerate(rubrics, 1), 2):
        same = one.get("polarity") == other.get("polarity") and set(one["traps"]) == set(other["traps"])
        if same and (share := alike(one["criterion"], other["criterion"])) >= RESTATED_FROM:
            return Finding("restated", f"R{at}, R{there}: {share:.0%} ({one['criterion']} / {other['criterion']})")
    return None


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """How much of the source a draft keeps, and what the examiner said."""
    blocks: list[Block] = []
    if kept := data.get("kept"):
        said = gettext("%(share)s of the source's text is kept; the least allowed is %(least)s.")
        text = said % {"share": f"{kept['share']:.0%}", "least": f"{kept['least']:.0%}"}
        blocks.append(Text(gettext("Rests on its source"), text))
    if examined := data.get("examined"):
        blocks.append(examiner.shown(examined))
    return blocks


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
        ModelRole("checker", _("Checker: tries to answer the questions about reports"), default="generator"),
        ModelRole(
            "examiner",
            _("Examiner: looks for questions that give the trap away, and for inventions that exist"),
            default="checker",
            apart="generator",
        ),
    ),
    steps=(
        each(inject, asks=_injecting),
        each(answerable, applies=_is_to_be_asked, asks=_checking),
        each(control.ask_control, applies=control.is_asked, asks=control.asks),
        each(examiner.examine, applies=examiner.is_asked, asks=examiner.asks),
    ),
    sample=sample,
    max_versions=3,
    checks=(
        Check("leak", _("The text gives the trap away"), gives_itself_away),
        Check("answerable", _("The report answers the question"), answered_by_the_report),
        Check("restated", _("Two criteria say the same"), restated),
        *examiner.CHECKS,
    ),
    compared=compared,
    plans=(PAPER,),
    prompt_sets=tuple(name for name in SETS if name),
    presets=(
        Preset(
            "standard",
            _("Standard"),
            _("A rewritten conversation keeps at least the share “kept” of its source's text. No control arm."),
            SETTINGS,
        ),
        Preset(
            "controls",
            _("With a control arm"),
            _("Like Standard. Beside each sample the same place without the trap, for one physician to review."),
            {**SETTINGS, "controls": True},
        ),
    ),
    control=control.control,
    lineage=lineage,
)
