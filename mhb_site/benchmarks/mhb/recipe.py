"""MHB's recipe: traps planted in dialogues, and questions about reports (paper, section 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from generation.llm.types import Request
from generation.recipes.prompts import Prompt, read_prompts
from generation.recipes.recipe import (
    Check,
    CheckFinding,
    Draft,
    ModelRole,
    Models,
    NewRubric,
    NewSample,
    Recipe,
    ReplyShape,
    Term,
    per_draft,
    read_presets,
    settings_in_force,
)
from generation.recipes.text_similarity import longest_leak, word_overlap
from mhb_site.benchmarks.mhb import control, examiner, rewording
from mhb_site.benchmarks.mhb.generator_reply import (
    MAX_ADDED_TURNS,
    MAX_CRITERIA,
    MAX_FIELD,
    MAX_GROWTH,
    MAX_QUESTION,
    MAX_TRAPS,
    RESTATED,
    AlteredDialogue,
    ReportQuestion,
    check_dialogue,
    check_report,
    conversation_text,
    polarity_of,
    share_kept,
)
from mhb_site.benchmarks.mhb.plan import FIGURE_2, PAPER
from mhb_site.benchmarks.mhb.review import RUBRIC_FORM
from mhb_site.benchmarks.mhb.structured_data import has_structured_data
from mhb_site.benchmarks.mhb.taxonomy import MULTIMODAL, subtypes
from review.rules.blocks import Block, Text

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "inject_dialogue", "question_report", "answerable_report")

MAX_SPECIALTY = 100

# A criterion names the false element, as the text itself does, so only nearly the whole of it gives
# the trap away. What is true instead does not belong in the text, so half of it is enough.
CRITERION_SHARE = 0.85
TRUTH_SHARE = 0.5

# `kept`: the minimum share of a conversation's text to keep. Ours: the paper "restructures" turns
# and gives no bound. `controls`: make a control for each sample (`control.py`).
MAX_VERSIONS = 3  # of a sample, unless a launch says otherwise
PRESETS = read_presets(__file__)


class Answerable(ReplyShape):
    """Whether the report answers the question, the answer, and the words of the report that give it."""

    answerable: bool
    answer: str
    where: str


async def inject(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask in one call for the traps, the altered text or question, and the rubric."""
    content, data = draft.record.content, dict[str, Any]()
    # None of the rejected versions may come back.
    rejected = [version for version, _reasons in draft.rejected_versions]
    given: dict[str, Any] = {"terms": available_terms(draft), "rejected": rejected}
    reply: AlteredDialogue | ReportQuestion
    if content["kind"] == "dialogue":
        source = [{"role": turn["role"], "content": turn["content"]} for turn in content["turns"]]
        least = min_share_kept(draft)
        check = partial(check_dialogue, source=source, min_kept=least, **given)
        reply = await models.ask_structured("generator", _request(draft, source), AlteredDialogue, check=check)
        turns = [{"role": turn.role, "content": turn.content.strip()} for turn in reply.turns]
        sample_content: dict[str, Any] = {"task": "dialogue", "source_turns": source, "turns": turns}
        data["kept"] = {"share": round(share_kept(turns, source), 4), "least": least}
    else:
        text = content["text"]
        checked = partial(check_report, source=text, **given)
        reply = await models.ask_structured("generator", _request(draft, text), ReportQuestion, check=checked)
        sample_content = {"task": "report", "report": text, "question": reply.question.strip()}
    known = subtypes(draft.terms)
    sample_content["traps"] = []
    for trap in reply.traps:
        # Store the name too: an admin may rename terms of their own later.
        name = known[trap.code].label
        sample_content["traps"].append({**trap.model_dump(by_alias=True, exclude_defaults=True), "name": name})
    data["rubrics"] = []
    for rubric in reply.rubrics:
        criterion, polarity = rubric.criterion.strip(), polarity_of(rubric)
        data["rubrics"].append({"criterion": criterion, "traps": rubric.traps, "polarity": polarity})
    # Only physicians whose specialty is named exactly so could be found by it.
    if reply.specialty in draft.specialties:
        data["specialty"] = reply.specialty
    return [replace(draft, data={"content": sample_content, "prompt": _injection_prompt(draft).label, **data})]


def min_share_kept(draft: Draft) -> float:
    """The minimum share of a conversation's text that its altered version has to keep."""
    return float(settings_in_force(PRESETS, draft)["kept"])


def available_terms(draft: Draft) -> tuple[Term, ...]:
    """The taxonomy for this record, without multimodal traps if it has nothing but running text."""
    if has_structured_data(draft.record.content):
        return tuple(draft.terms)
    return tuple(term for term in draft.terms if term.code != MULTIMODAL)


def preferred_terms(draft: Draft) -> list[Term]:
    """What the plan prefers for this record; in place of a type that it cannot carry, its cluster's others."""
    known = subtypes(available_terms(draft))
    clusters = {term.code: term.parent for term in draft.terms}
    preferred: dict[str, Term] = {}
    for code in draft.preferred:
        if code in known:
            preferred[code] = known[code]
            continue
        for other, term in known.items():
            if term.parent == clusters.get(code):
                preferred[other] = term
    return list(preferred.values())


def _injection_prompt(draft: Draft) -> Prompt:
    prompts = SETS[draft.prompts]
    if draft.record.content["kind"] == "dialogue":
        return prompts["inject_dialogue"]
    return prompts["question_report"]


def _request(draft: Draft, source: object) -> Request:
    terms = available_terms(draft)
    data = {
        # Only the text of the record: never its grader's rubrics, ideal completion or canary.
        "source": source,
        # The physicians' reasons go with it; the source is in the prompt already.
        "rejected": draft.rejected("turns", "question", "traps", "rubrics"),
        "preferred": [f"{term.code} {term.label}" for term in preferred_terms(draft)] or None,
        "specialties": draft.specialties,
    }
    texts = {
        "taxonomy": _taxonomy_text(terms),
        "rubric_form": RUBRIC_FORM,
        "max_traps": str(MAX_TRAPS),
        "max_criteria": str(MAX_CRITERIA),
        "max_question": str(MAX_QUESTION),
        "max_field": str(MAX_FIELD),
        "max_added_turns": str(MAX_ADDED_TURNS),
        "max_growth": str(MAX_GROWTH),
        "min_kept": f"{min_share_kept(draft):.0%}",
        "examples": _examples_text(draft.record.content["kind"], terms),
    }
    return _injection_prompt(draft).request(data, texts)


def _examples_text(kind: str, terms: Sequence[Term]) -> str:
    """One good and one bad example for each of these subtypes."""
    known = subtypes(terms)
    examples = Path(__file__).with_name(f"subtype_examples_{kind}.txt")
    lines = []
    for line in examples.read_text(encoding="utf-8").splitlines():
        code, _space, _example = line.partition(" ")
        if code in known:
            lines.append(f"- {line}")
    return "\n".join(lines)


def _taxonomy_text(terms: Sequence[Term]) -> str:
    """The taxonomy as text: clusters as headings, one subtype per line."""
    lines: list[str] = []
    for cluster in terms:
        if cluster.parent:
            continue
        lines.append(f"{cluster.code} {cluster.label}: {cluster.definition}")
        for term in terms:
            if term.parent == cluster.code:
                lines.append(f"- {term.code} {term.label}: {term.definition}")
    return "\n".join(lines)


async def answerable(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the checker whether the report answers the question (it must not)."""
    content = draft.data["content"]
    prompt = SETS[draft.prompts]["answerable_report"]
    request = prompt.request({"report": content["report"], "question": content["question"]})
    reply = await models.ask_structured("checker", request, Answerable)
    return [draft.extended(answerable=reply.model_dump())]


def _needs_answer_check(draft: Draft) -> bool:
    return "answerable" in draft.checks and draft.record.content["kind"] == "report"


def find_answer_in_report(draft: Draft) -> CheckFinding | None:
    """The finding that the report answers the question, with the answer and where it is."""
    reply = draft.data.get("answerable")
    if not reply or not reply["answerable"]:
        return None
    return CheckFinding("answerable", f"{reply['answer'][:MAX_FIELD]} [{reply['where'][:MAX_FIELD]}]")


def find_giveaway(draft: Draft) -> CheckFinding | None:
    """The finding that the text shown to models contains a criterion, or what is true instead."""
    content = draft.data["content"]
    if content["task"] == "dialogue":
        text, source = conversation_text(content["turns"]), conversation_text(content["source_turns"])
    else:
        text, source = content["question"], content["report"]
    secrets = [(rubric["criterion"], CRITERION_SHARE) for rubric in draft.data["rubrics"]]
    secrets += [(trap["why"], TRUTH_SHARE) for trap in content["traps"]]
    for secret, share in secrets:
        leak = longest_leak(secret, text, source=source, min_share=share)
        if leak is not None:
            return CheckFinding("leak", f"“{leak.words}” ({secret})")
    return None


def text_to_compare(new_sample: NewSample) -> str:
    """The text that no two samples may share: what a model under test sees."""
    content = new_sample.content
    if new_sample.task == "dialogue":
        return conversation_text(content["turns"])
    return f"{content['report']}\n{content['question']}"


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    Content of a dialogue: {task, source_turns: [{role, content}], turns: [{role, content}], traps};
    the turns end in the bait. Of a report: {task, report, question, traps}. A trap is {code, name,
    where, false, why}.
    """
    content = draft.data["content"]
    of_record = draft.record.content.get("specialty")  # neither HealthBench nor PMC-Patients has one
    specialty = ""
    if isinstance(of_record, str):
        specialty = of_record.strip()[:MAX_SPECIALTY]
    rubrics = []
    for number, rubric in enumerate(draft.data["rubrics"], 1):
        traps = tuple(dict.fromkeys(rubric["traps"]))
        rubrics.append(NewRubric(f"R{number}", rubric["criterion"], traps, polarity=rubric.get("polarity", "")))
    return NewSample(
        task=content["task"],
        title=draft.record.title,
        language=draft.record.language,
        content=content,
        specialty=specialty or draft.data.get("specialty", ""),
        rubrics=tuple(rubrics),
        prompt=draft.data.get("prompt", ""),
        provenance=_data_card(draft),
    )


def _data_card(draft: Draft) -> dict[str, str]:
    """Entries of the data card: the record's HealthBench themes, and the share of text kept."""
    themes = []
    for tag in draft.record.content.get("tags") or ():
        if isinstance(tag, str) and tag.startswith("theme:"):
            themes.append(tag.removeprefix("theme:"))
    entries = {}
    if themes:
        entries = {_("theme"): ", ".join(themes)}
    if kept := draft.data.get("kept"):
        tenth = min(int(kept["share"] * 10), 9) * 10
        entries[_("text kept")] = f"{tenth}–{tenth + 10} %"
    return entries


def find_restated_criteria(draft: Draft) -> CheckFinding | None:
    """The finding that two criteria of the same polarity and traps say nearly the same."""
    rubrics = draft.data["rubrics"]
    for (number, rubric), (other_number, other) in combinations(enumerate(rubrics, 1), 2):
        same = rubric.get("polarity") == other.get("polarity") and set(rubric["traps"]) == set(other["traps"])
        if same and (share := word_overlap(rubric["criterion"], other["criterion"])) >= RESTATED:
            wordings = f"{rubric['criterion']} / {other['criterion']}"
            return CheckFinding("restated", f"R{number}, R{other_number}: {share:.0%} ({wordings})")
    return None


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """Blocks that show how much of the source a draft keeps, and the examiner's findings."""
    blocks: list[Block] = []
    if kept := data.get("kept"):
        template = gettext("%(share)s of the source's text is kept; the minimum is %(least)s.")
        text = template % {"share": f"{kept['share']:.0%}", "least": f"{kept['least']:.0%}"}
        blocks.append(Text(gettext("Source text kept"), text))
    return [*blocks, *examiner.tables(data)]


def _asks_generator(draft: Draft) -> list[tuple[str, str]]:
    return [("generator", _injection_prompt(draft).label)]


def _asks_checker(draft: Draft) -> list[tuple[str, str]]:
    return [("checker", SETS[draft.prompts]["answerable_report"].label)]


def _asks_for_control(draft: Draft) -> list[tuple[str, str]]:
    return [("generator", control.PROMPTS_BY_KIND[draft.record.content["kind"]].label)]


def _asks_for_rewording(_draft: Draft) -> list[tuple[str, str]]:
    return [("generator", rewording.REWORD.label)]


def _asks_verifier(draft: Draft) -> list[tuple[str, str]]:
    return [(rewording.verifier(draft), rewording.CHECK.label)]


STEPS = (
    per_draft(inject, asks=_asks_generator),
    per_draft(answerable, applies=_needs_answer_check, asks=_asks_checker),
    per_draft(control.ask_control, applies=control.makes_control, asks=_asks_for_control),
    per_draft(rewording.ask_rewording, applies=rewording.makes_rewording, asks=_asks_for_rewording),
    per_draft(rewording.check_rewording, applies=rewording.makes_rewording, asks=_asks_verifier),
    *examiner.STEPS,
)
RECIPE = Recipe(
    label=_("MHB: hallucination traps"),
    intended=(
        "For measuring how often language models accept or extend what is false in a conversation or a "
        "question about a report. The samples contain false medical claims on purpose."
    ),
    kinds=frozenset({"dialogue", "report"}),
    # The paper uses Gemini 2.5 Pro "configured with default hyperparameters", so none are set here.
    roles=(
        ModelRole("generator", _("Generator: plants the traps and writes the rubrics")),
        ModelRole(
            "checker",
            _("Checker: tries to answer the questions about reports"),
            default="examiner",
            kinds=frozenset({"report"}),
            checks=frozenset({"answerable"}),
            independent_of=("generator",),
        ),
        ModelRole(
            "examiner",
            _("Examiner: reads the sample blind, checks traps and rubrics, answers briefly"),
            checks=frozenset(check.name for check in examiner.CHECKS),
            independent_of=("generator",),
        ),
    ),
    steps=STEPS,
    sample=sample,
    max_versions=MAX_VERSIONS,
    checks=(
        Check("leak", _("The text gives the trap away"), find_giveaway, returns=True),
        Check("answerable", _("The report answers the question"), find_answer_in_report, returns=True),
        Check("restated", _("Two criteria say the same"), find_restated_criteria, returns=True),
        *examiner.CHECKS,
    ),
    compared=text_to_compare,
    plans=(PAPER, FIGURE_2),
    prompt_sets=tuple(name for name in SETS if name),
    presets=PRESETS,
    setting_labels={
        "kept": _("Share of the source text kept"),
        "controls": _("Control arm"),
        "rewordings": _("Reworded controls"),
        "rewordings_reviewed": _("Share of reworded controls reviewed"),
        "versions": _("Maximum versions of a sample"),
        "returns": _("Maximum returns to the generator"),
    },
    control=control.control,
    reworded=rewording.reworded,
    lineage=lineage,
    step_labels={
        "inject": _("Plant traps and write rubrics"),
        "answerable": _("Check whether the report answers the question"),
        "ask_control": _("Write the control"),
        "ask_rewording": _("Reword the control"),
        "check_rewording": _("Compare the rewording with the control"),
        "read_blind": _("Read the sample blind"),
        "examine": _("Check traps and rubrics"),
        "answer_plainly": _("Answer correctly and briefly"),
        "judge_plain_answer": _("Judge the brief answer"),
    },
)
