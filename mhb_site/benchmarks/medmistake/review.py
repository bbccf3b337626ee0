"""The review form of MedMistake: the mistake, then the scenario meant to elicit it.

The two judgments are linked. A mistake that is not valid ends the review, and the sample is
discarded: no other scenario could fix it. A scenario that is not valid is sent back: the next
version keeps the mistake and only the scenario is written again. The model's risk rating is not
shown, so that it does not influence the physicians' own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import review_policy
from mhb_site.benchmarks.medmistake.taxonomy import RISKS
from review.forms.design import folder_form
from review.rules.blocks import Block, Dialogue, Table, Text, Turn
from review.rules.case_spec import CaseSpec
from review.rules.questions import Question, RubricText

FORM = replace(folder_form(__package__), severities=RISKS)


def _final(question: Question) -> Question:
    return replace(question, choices=tuple(replace(choice, ends=choice.blocks) for choice in question.choices))


# A published scenario cannot be written again, so any rejection is final.
PUBLISHED_FORM = replace(FORM, questions=tuple(map(_final, FORM.questions)))
MAX_EXCERPT = 400  # characters of a turn that are quoted; the whole turn is in the conversation
SPEAKERS = {"patient": _("Patient"), "doctor": _("Doctor")}


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `replication.sample` documents it."""
    # Rubrics without traps: the risk question is about the mistake, not its category.
    rubrics = tuple(RubricText(rubric.key, rubric.criterion) for rubric in sample.rubrics)
    form = replace(FORM, rubrics=rubrics)
    if sample.provenance.get("origin") == "published":
        form = replace(PUBLISHED_FORM, rubrics=rubrics)
    shown, policy = tuple(_blocks(sample.content)), review_policy(sample.provenance, settle_wording=True)
    return CaseSpec.of(sample, "medmistake", lineage, version, blocks=shown, form=form, policy=policy)


def marked_turns(conversation: Sequence[Mapping[str, Any]], mistake_turns: Collection[int]) -> tuple[Turn, ...]:
    """The turns, with a mark where the mistake is made, or where the patient made up a value."""
    turns = []
    for number, turn in enumerate(conversation, 1):
        mark = ""
        if turn.get("invented"):
            mark = _("Made-up value")
        elif number in mistake_turns:
            mark = _("Mistake")
        turns.append(Turn(SPEAKERS.get(turn["role"], turn["role"]), turn["text"], mark=mark))
    return tuple(turns)


def invented_values(conversation: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """A table of the values that the patient's model made up, if there are any."""
    rows = []
    for number, turn in enumerate(conversation, 1):
        for value in turn.get("invented", ()):
            rows.append((str(number), value))
    if rows:
        title = _("Values that are not in the case: the patient's model made them up")
        yield Table(title, (_("Turn"), _("Value")), tuple(rows))


def _quoted_turns(conversation: Sequence[Mapping[str, Any]], numbers: Sequence[int]) -> str:
    """The turns in which the mistake was made, with what was said there: the question is about it."""
    lines = []
    for number in numbers:
        line = str(number)
        if 0 < number <= len(conversation):
            excerpt = Truncator(conversation[number - 1]["text"]).chars(MAX_EXCERPT)
            if excerpt:
                line += f": “{excerpt}”"
        lines.append(line)
    return "\n".join(lines) or "–"


def _blocks(content: Mapping[str, Any]) -> Iterator[Block]:
    mistake = content["mistake"]
    mistake_turns = sorted({int(turn) for turn in mistake.get("turns", ())})
    turns = marked_turns(content["conversation"], mistake_turns)
    row = (mistake["title"], mistake["description"], _quoted_turns(content["conversation"], mistake_turns))
    yield Table(_("The mistake"), (_("Title"), _("Description"), _("Turns")), (row,))
    if turns:
        yield Dialogue(_("The conversation in which it was made"), turns)
        yield from invented_values(content["conversation"])
    yield Text(_("The scenario, as a model sees it"), content["scenario"])
    yield Text(_("What a correct answer must do"), content["must"])
