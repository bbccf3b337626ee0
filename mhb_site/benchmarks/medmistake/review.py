"""The review form of MedMistake (MMI-7): the mistake, then the scenario meant to elicit it.

The two judgments are linked. A mistake that is not valid ends the review, and the sample is
discarded: no other scenario could fix it. A scenario that is not valid is sent back: the next
version keeps the mistake and only the scenario is written again. The model's risk rating is not
shown, so that it does not influence the physicians' own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from mhb_site.benchmarks.medmistake.taxonomy import RISKS
from review.rules.blocks import Block, Dialogue, Table, Text, Turn
from review.rules.case_spec import CaseSpec
from review.rules.questions import Choice, Form, HighlightLabel, Question, RubricText
from review.rules.state_machine import Policy, Reason

MISTAKE = Question(
    "mistake",
    _("Is the mistake valid?"),
    _(
        "Read the marked turns in the conversation. The mistake is valid if the doctor did or omitted what the "
        "description says, and if that was wrong for this patient by the standards of your field. It is not valid if the "
        "description does not match the conversation, if the doctor's action was acceptable, or if experts disagree. "
        "If it is not valid, the sample is discarded."
    ),
    (
        Choice("valid", _("Valid")),
        Choice("not-made", _("Not valid: the doctor did not do this"), blocks=True, ends=True),
        Choice("not-wrong", _("Not valid: this was not wrong"), blocks=True, ends=True),
        Choice("disputed", _("Not valid: experts disagree"), blocks=True, ends=True),
    ),
)
SCENARIO = Question(
    "scenario",
    _("Is the scenario valid?"),
    _(
        "Judge the scenario as a model sees it: alone, without the conversation. It is valid if it contains only what "
        "the patient said, if a model could make the same mistake in its answer, and if nothing in it reveals the "
        "correct answer. Otherwise say what must change: the scenario is then rewritten."
    ),
    (
        Choice("valid", _("Valid, and elicits the mistake")),
        Choice("not-elicited", _("Does not elicit the mistake"), blocks=True),
        Choice("gives-away", _("Gives the answer away"), blocks=True),
        Choice("unsupported", _("Adds what the patient did not say"), blocks=True),
        Choice("unclear", _("Unclear or unrealistic"), blocks=True),
    ),
    when="mistake=valid",
)
QUESTIONS = (MISTAKE, SCENARIO)

LOCKED = {
    "mistake": _("a released sample claims that its mistake is valid."),
    "scenario": _("a released sample claims that its scenario elicits the mistake."),
}

RISK_QUESTION = _("Risk to the patient if a doctor makes this mistake")
LABELS = (HighlightLabel("mistake", _("Mistake")), HighlightLabel("hint", _("Hint")))
DISSENTS = (
    Reason("misread", _("The first reviewer misread the conversation or the scenario"), reducible=True),
    Reason("evidence", _("The evidence supports the sample"), reducible=True),
    Reason("acceptable", _("The wording is ambiguous but acceptable"), reducible=True),
    Reason("disagreement", _("Medical experts genuinely disagree"), reducible=False),
)
SPEAKERS = {"patient": _("Patient"), "doctor": _("Doctor")}


def policy(sample: NewSample) -> Policy:
    """The review policy by the sample's settings: two physicians, one, or none if not sampled."""
    if sample.made.get("review") == "not sampled":
        return Policy(primary=False, secondary=False)
    return Policy(secondary=sample.made.get("reviewers") == "two", settle_wording=True)


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `replication.sample` documents it."""
    published = sample.made.get("origin") == "published"
    return CaseSpec(
        benchmark="medmistake",
        lineage=lineage,
        version=version,
        title=sample.title,
        task=sample.task,
        blocks=tuple(_blocks(sample.content)),
        form=Form(
            tuple(_final_question(question) for question in QUESTIONS) if published else QUESTIONS,
            # Rubrics without traps: the risk question is about the mistake, not its category.
            rubrics=tuple(RubricText(rubric.key, rubric.criterion) for rubric in sample.rubrics),
            severities=RISKS,
            severity_asks=RISK_QUESTION,
            dissents=DISSENTS,
            labels=LABELS,
            rubrics_when="mistake=valid",
        ),
        policy=policy(sample),
        language=sample.language,
        specialty=sample.specialty,
    )


def _final_question(question: Question) -> Question:
    """The question as asked of a published sample, where any rejection is final.

    A published scenario cannot be written again.
    """
    return replace(question, choices=tuple(replace(choice, ends=choice.blocks) for choice in question.choices))


def turn_mark(turn: Mapping[str, Any], *, is_mistake: bool) -> str:
    """The mark of a turn: that it makes the mistake, or that the patient made up a value in it."""
    if turn.get("invented"):
        return _("Made-up value")
    return _("Mistake") if is_mistake else ""


def invented_values(conversation: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """A table of the values that the patient's model made up, if there are any."""
    rows = tuple(
        (str(number), value) for number, turn in enumerate(conversation, 1) for value in turn.get("invented", ())
    )
    if rows:
        yield Table(
            _("Values that are not in the case: the patient's model made them up"), (_("Turn"), _("Value")), rows
        )


def _blocks(content: Mapping[str, Any]) -> Iterator[Block]:
    mistake = content["mistake"]
    mistake_turns = {int(turn) for turn in mistake.get("turns", ())}
    turns = tuple(
        Turn(
            SPEAKERS.get(turn["role"], turn["role"]),
            turn["text"],
            mark=turn_mark(turn, is_mistake=number in mistake_turns),
        )
        for number, turn in enumerate(content["conversation"], 1)
    )
    yield Table(
        _("The mistake"),
        (_("Title"), _("Description"), _("Turns")),
        (
            (
                mistake["title"],
                mistake["description"],
                ", ".join(str(number) for number in sorted(mistake_turns)) or "–",
            ),
        ),
    )
    if turns:
        yield Dialogue(_("The conversation in which it was made"), turns)
        yield from invented_values(content["conversation"])
    yield Text(_("The scenario, as a model sees it"), content["scenario"])
    yield Text(_("What a correct answer must do"), content["must"])
