"""MHB's recipe: traps planted in dialogues, and questions about reports (paper, section 3)."""

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
    CheckFinding,
    Draft,
    ModelRole,
    Models,
    NewRubric,
    NewSample,
    Recipe,
    Record,
    Term,
    per_draft,
    read_presets,
    settings_in_force,
)
from generation.recipes.text_similarity import longest_leak, word_overlap
from mhb_site.benchmarks.mhb import control, examiner
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
    Strict,
    check_dialogue,
    check_report,
    polarity_of,
    share_kept,
)
from mhb_site.benchmarks.mhb.plan import PAPER
from mhb_site.benchmarks.mhb.review import RUBRIC_FORM
from mhb_site.benchmarks.mhb.taxonomy import MULTIMODAL, subtypes
from review.rules.blocks import Block, Text

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "inject_dialogue", "question_report", "answerable_report")
INJECT_DIALOGUE = SETS[""]["inject_dialogue"]
QUESTION_REPORT = SETS[""]["question_report"]
ANSWERABLE_REPORT = SETS[""]["answerable_report"]

MAX_SPECIALTY = 100

# A criterion names the false element, as the text itself does, so only nearly the whole of it gives
# the trap away. What is true instead does not belong in the text, so half of it is enough.
CRITERION_SHARE = 0.85
TRUTH_SHARE = 0.5

# `kept`: the minimum share of a conversation's text to keep. Ours: the paper "restructures" turns
# and gives no bound. `controls`: make a control for each sample (`control.py`).
MAX_VERSIONS = 3  # of a sample, unless a launch says otherwise
PRESETS = read_presets(__file__)


class Answerable(Strict):
    """Whether the report answers the question, the answer, and the words of the report that give it."""

    answerable: bool
    answer: str
    where: str


async def inject(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask in one call for the traps, the altered text or question, and the rubric (MHB-4)."""
    content = draft.record.content
    if content["kind"] == "dialogue":
        source = [{"role": turn["role"], "content": turn["content"]} for turn in content["turns"]]
        altered = await models.ask_structured(
            "generator",
            _request("inject_dialogue", draft, source),
            AlteredDialogue,
            check=partial(
                check_dialogue,
                source=source,
                terms=available_terms(draft),
                min_kept=min_share_kept(draft),
                rejected=_rejected_contents(draft),
            ),
        )
        sample_content: dict[str, Any] = {
            "task": _("dialogue"),
            "source_turns": source,
            "turns": [{"role": turn.role, "content": turn.content.strip()} for turn in altered.turns],
        }
        traps, rubrics, specialty = altered.traps, altered.rubrics, altered.specialty
    else:
        question = await models.ask_structured(
            "generator",
            _request("question_report", draft, content["text"]),
            ReportQuestion,
            check=partial(
                check_report, source=content["text"], terms=available_terms(draft), rejected=_rejected_contents(draft)
            ),
        )
        sample_content = {"task": _("report"), "report": content["text"], "question": question.question.strip()}
        traps, rubrics, specialty = question.traps, question.rubrics, question.specialty
    known = subtypes(draft.terms)
    # Store the name too: an admin may rename terms of their own later.
    sample_content["traps"] = [
        {**trap.model_dump(by_alias=True, exclude_defaults=True), "name": known[trap.code].label} for trap in traps
    ]
    rubric_data = [
        {"criterion": rubric.criterion.strip(), "traps": rubric.traps, "polarity": polarity_of(rubric)}
        for rubric in rubrics
    ]
    [(_role, label)] = _injection_prompts(draft)
    data: dict[str, Any] = {"content": sample_content, "rubrics": rubric_data, "prompt": label}
    # Only physicians whose specialty is named exactly so could be found by it.
    if specialty in draft.specialties:
        data["specialty"] = specialty
    if sample_content["task"] == "dialogue":
        data["kept"] = {
            "share": round(share_kept(sample_content["turns"], sample_content["source_turns"]), 4),
            "least": min_share_kept(draft),
        }
    return [replace(draft, data=data)]


def min_share_kept(draft: Draft) -> float:
    """The minimum share of a conversation's text that its altered version has to keep."""
    return float(settings_in_force(PRESETS, draft)["kept"])


def available_terms(draft: Draft) -> tuple[Term, ...]:
    """The taxonomy for this record, without multimodal traps if the record has no image."""
    content = draft.record.content
    has_image = bool(content.get("images") or content.get("image"))
    return tuple(term for term in draft.terms if has_image or term.code != MULTIMODAL)


def _injection_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    name = "inject_dialogue" if draft.record.content["kind"] == "dialogue" else "question_report"
    return (("generator", _prompt(draft, name).label),)


def _prompt(draft: Draft, name: str) -> Prompt:
    return SETS[draft.prompts][name]


def _request(name: str, draft: Draft, source: object) -> Request:
    prompt = _prompt(draft, name)
    # Send only the text of the record: never its grader's rubrics, ideal completion or canary.
    messages = prompt.messages(
        taxonomy=_taxonomy_text(available_terms(draft)),
        source=as_data(source),
        # The physicians' reasons go with it (MHB-9); the source is in the prompt already.
        rejected=as_data(draft.rejected("turns", "question", "traps", "rubrics")),
        preferred=as_data(_preferred_traps(draft)),
        specialties=as_data(draft.specialties),
        rubric_form=RUBRIC_FORM,
        max_traps=str(MAX_TRAPS),
        max_criteria=str(MAX_CRITERIA),
        max_question=str(MAX_QUESTION),
        max_field=str(MAX_FIELD),
        max_added_turns=str(MAX_ADDED_TURNS),
        max_growth=str(MAX_GROWTH),
        min_kept=f"{min_share_kept(draft):.0%}",
        examples=_examples_text(draft),
    )
    return Request(messages, prompt=prompt.label)


def _examples_text(draft: Draft) -> str:
    """One good and one bad example for each subtype; terms added by an admin have none."""
    known = subtypes(available_terms(draft))
    file = f"subtype_examples_{draft.record.content['kind']}.txt"
    lines = (Path(__file__).parent / file).read_text(encoding="utf-8").splitlines()
    return "\n".join(f"- {line}" for line in lines if line.partition(" ")[0] in known)


def _taxonomy_text(terms: Sequence[Term]) -> str:
    """The taxonomy as text: clusters as headings, one subtype per line."""
    lines: list[str] = []
    for cluster in (term for term in terms if not term.parent):
        lines.append(f"{cluster.code} {cluster.label}: {cluster.definition}")
        lines += [f"- {term.code} {term.label}: {term.definition}" for term in terms if term.parent == cluster.code]
    return "\n".join(lines)


def _rejected_contents(draft: Draft) -> list[Mapping[str, Any]]:
    """The content of all rejected versions, none of which may come back."""
    return [content for content, _reasons in draft.rejected_versions]


def _preferred_traps(draft: Draft) -> list[str] | None:
    """The trap types that the plan prefers here, without those removed from the taxonomy."""
    known = subtypes(available_terms(draft))
    return [f"{code} {known[code].label}" for code in draft.preferred if code in known] or None


async def answerable(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the checker whether the report answers the question (MHB-3: it must not)."""
    content = draft.data["content"]
    prompt = _prompt(draft, "answerable_report")
    messages = prompt.messages(report=as_data(content["report"]), question=as_data(content["question"]))
    reply = await models.ask_structured("checker", Request(messages, prompt=prompt.label), Answerable)
    return [replace(draft, data={**draft.data, "answerable": reply.model_dump()})]


def _checker_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    return (("checker", _prompt(draft, "answerable_report").label),)


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
        text, source = _conversation_text(content["turns"]), _conversation_text(content["source_turns"])
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
        return _conversation_text(content["turns"])
    return f"{content['report']}\n{content['question']}"


def _conversation_text(turns: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(turn["content"] for turn in turns)


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    Content of a dialogue: {task, source_turns: [{role, content}], turns: [{role, content}], traps};
    the turns end in the bait. Of a report: {task, report, question, traps}. A trap is {code, name,
    where, false, why}.
    """
    content = draft.data["content"]
    return NewSample(
        task=content["task"],
        title=draft.record.title,
        language=draft.record.language,
        content=content,
        specialty=_specialty(draft.record) or draft.data.get("specialty", ""),
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
        provenance=_data_card(draft),
    )


def _data_card(draft: Draft) -> dict[str, str]:
    """Entries of the data card: the record's HealthBench themes, and the share of text kept."""
    tags = draft.record.content.get("tags") or ()
    themes = [tag.removeprefix("theme:") for tag in tags if isinstance(tag, str) and tag.startswith("theme:")]
    entries = {_("theme"): ", ".join(themes)} if themes else {}
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


def _specialty(record: Record) -> str:
    """The medical specialty named by the record. Neither HealthBench nor PMC-Patients has one."""
    specialty = record.content.get("specialty")
    return specialty.strip()[:MAX_SPECIALTY] if isinstance(specialty, str) else ""


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
            _("Examiner: reads the sample blind, then checks traps and rubrics"),
            checks=frozenset(check.name for check in examiner.CHECKS),
            independent_of=("generator",),
        ),
    ),
    steps=(
        per_draft(inject, asks=_injection_prompts),
        per_draft(answerable, applies=_needs_answer_check, asks=_checker_prompts),
        per_draft(control.ask_control, applies=control.makes_control, asks=control.role_prompts),
        per_draft(examiner.read_blind, applies=examiner.is_read_blind, asks=examiner.blind_prompts),
        per_draft(examiner.examine, applies=examiner.is_examined, asks=examiner.informed_prompts),
    ),
    sample=sample,
    max_versions=MAX_VERSIONS,
    checks=(
        Check("leak", _("The text gives the trap away"), find_giveaway),
        Check("answerable", _("The report answers the question"), find_answer_in_report),
        Check("restated", _("Two criteria say the same"), find_restated_criteria),
        *examiner.CHECKS,
    ),
    compared=text_to_compare,
    plans=(PAPER,),
    prompt_sets=tuple(name for name in SETS if name),
    presets=PRESETS,
    control=control.control,
    lineage=lineage,
)
