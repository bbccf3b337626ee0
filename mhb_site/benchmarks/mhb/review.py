"""The review form of MHB: the criteria of the paper's 'Expert-led Quality Assurance'."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import review_policy
from mhb_site.benchmarks.mhb.taxonomy import TERMS
from review.forms.design import folder_form
from review.rules.blocks import Block, Dialogue, Diff, Table, Text, Turn
from review.rules.case_spec import CaseSpec
from review.rules.citations import PUBLISHED_LEVELS, CitationLevel
from review.rules.questions import RubricText, TrapTerm
from review.rules.state_machine import Policy

SPEAKERS = {"user": _("User"), "assistant": _("Assistant")}


# Ours, not the paper's: 'noticed' (whether a physician who was not told of a trap notices it is the
# plainest measure of how well it is hidden), the codes of reasons and dissents (the paper does not
# say which faults a new generation cannot fix), and the form of controls. The scale of harm is the
# AHRQ Common Formats Harm Scale: the harm to a patient whose clinician followed the hallucination.
# The values of 'factual' are older than its wording: 'met' means that the claim is false.
FORM = folder_form(__package__)
# What a rubric has to be like: the same words for physicians, generator, examiner and judge.
(RUBRIC_FORM,) = (question.help for question in FORM.questions if question.key == "alignment")
# A control has no trap, so there is nothing to hide, verify or disagree on: one physician is enough.
REWORDED_FORM = folder_form(__package__, "reworded_form")
CONTROL_FORM, CONTROL_POLICY = folder_form(__package__, "control_form"), Policy(secondary=False, guided=False)

# The levels of evidence that can show a trap of each type to be false; for all other types,
# published sources. Ours: the paper asks for evidence "against authoritative sources". A search
# without result shows that something does not exist. The text itself shows what contradicts or
# mixes up the text, but not that an established fact or a dose is wrong. A report, which is not
# altered, also shows that what a question presumes is not in it.
_INVENTED: tuple[CitationLevel, ...] = (*PUBLISHED_LEVELS, "search")
_IN_THE_TEXT: tuple[CitationLevel, ...] = (*PUBLISHED_LEVELS, "case")
EVIDENCE: dict[str, tuple[CitationLevel, ...]] = {
    "A1": _INVENTED,  # non-existent entity
    "A2": _IN_THE_TEXT,  # input contradiction
    "A5": _INVENTED,  # research fabrication
    "B2": _IN_THE_TEXT,  # amalgamation error
    "B3": _IN_THE_TEXT,  # multimodal integration failure
    "D1": _INVENTED,  # procedural invention
    "D2": _INVENTED,  # source fabrication
}
KNOWLEDGE = ("A3", "A4", "E1")  # established facts, doses, what is current: no case can show these

# secondary, secondary_confirms, inadequate_rejects and discussion keep their defaults, which follow
# the paper's review. Naturalness comes first, because a marked trap no longer looks natural.
POLICY = Policy(reveal_first_look=True, settle_wording=True, signed_wording=True)


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `recipe.sample` documents it."""
    if sample.content.get("reworded"):
        return _case_of_rewording(sample, lineage, version)
    if sample.content.get("control"):
        form = replace(CONTROL_FORM, rubrics=_rubrics(sample))
        shown = model_view(sample.content)
        return CaseSpec.of(sample, "mhb", lineage, version, blocks=shown, form=form, policy=CONTROL_POLICY)
    return CaseSpec.of(
        *(sample, "mhb", lineage, version),
        blocks=(*_stimulus(sample), _traps(sample.content)),
        form=replace(FORM, rubrics=_rubrics(sample), terms=_terms(sample.content["traps"], sample.task)),
        policy=POLICY,
        first_look=model_view(sample.content),
    )


def _case_of_rewording(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case of a control in other words: whether it says the same as the original."""
    content = sample.content
    if sample.task == "dialogue":
        before, after = _turns(content["source_turns"]), _turns(content["turns"])
        blocks: tuple[Block, ...] = (Diff(_("The conversation: original and rewording"), before, after),)
    else:
        original = Text(_("The question before it was reworded"), content["source_question"])
        blocks = (*model_view(content), original)
    form = replace(REWORDED_FORM, rubrics=_rubrics(sample))
    policy = review_policy({**sample.provenance, "reviewers": "one"}, guided=False)
    return CaseSpec.of(sample, "mhb", lineage, version, blocks=blocks, form=form, policy=policy)


def _rubrics(sample: NewSample) -> tuple[RubricText, ...]:
    return tuple(RubricText(rubric.key, rubric.criterion, rubric.traps) for rubric in sample.rubrics)


def _terms(traps: Sequence[dict[str, Any]], task: str) -> tuple[TrapTerm, ...]:
    definitions = {term.code: term.definition for term in TERMS}
    terms = {}
    for trap in traps:
        code = trap["code"]
        terms[code] = TrapTerm(code, trap["name"], definitions.get(code, ""), levels=_levels(code, task))
    return tuple(terms.values())


def _levels(code: str, task: str) -> tuple[str, ...]:
    """The levels of evidence that can show a trap of this type in this task."""
    report: tuple[str, ...] = ()
    if task == "report" and code not in KNOWLEDGE:
        report = ("case",)
    return tuple(dict.fromkeys((*EVIDENCE.get(code, PUBLISHED_LEVELS), *report)))


def model_view(content: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks shown to models: the conversation with the bait, or report and question."""
    if "turns" in content:
        return (Dialogue(_("The conversation"), _turns(content["turns"])),)
    return Text(_("The report"), content["report"]), Text(_("Question"), content["question"], tone="question")


def _stimulus(sample: NewSample) -> tuple[Block, ...]:
    content = sample.content
    if sample.task == "dialogue":
        return (
            Diff(
                _("The conversation: source and altered version"),
                _turns(content["source_turns"]),
                _turns(content["turns"]),
            ),
            Text(_("Bait question"), content["turns"][-1]["content"], tone="question"),
        )
    return (
        Text(_("The report (unchanged)"), content["report"]),
        Text(_("Question"), content["question"], tone="question"),
    )


def _turns(turns: Sequence[dict[str, Any]]) -> tuple[Turn, ...]:
    return tuple(Turn(SPEAKERS[turn["role"]], turn["content"]) for turn in turns)


def _traps(content: Mapping[str, Any]) -> Table:
    rows, places = [], []
    for trap in content["traps"]:
        rows.append((trap["code"], trap["name"], _location(trap), trap["false"], trap["why"]))
        places.append(_places(trap["where"], content))
    columns = (_("Code"), _("Trap"), _("Location"), _("What is false"), _("Why it is false"))
    return Table(_("Traps"), columns, tuple(rows), tone="trap", places=tuple(places))


def _location(trap: Mapping[str, Any]) -> str:
    """Where the trap is, with the words that carry it if the generator quoted them."""
    if trap.get("words"):
        return f"{trap['where']}: “{trap['words']}”"
    return str(trap["where"])


def _places(where: str, content: Mapping[str, Any]) -> tuple[int, ...]:
    """The altered turns that `where` names; all altered turns before the bait if it names none.

    `where` is the generator's description of the trap's place. A report's is the question, turn 1.
    """
    if "turns" not in content:
        return (1,)
    source_turns = {(turn["role"], turn["content"]) for turn in content["source_turns"]}
    altered = []
    for number, turn in enumerate(content["turns"], 1):
        if (turn["role"], turn["content"]) not in source_turns:
            altered.append(number)
    numbers = {int(number) for number in re.findall(r"[0-9]{1,3}", where)}
    named = [number for number in altered if number in numbers]
    return tuple(named or altered[:-1] or altered)
