"""The control of the control: the same text, reworded only.

What differs between it and the control is due to having been edited, and not to the trap. The
generator rewords the turns of the user, or the question about the report; another model says
whether anything was added or removed, and physicians review a sample.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from generation.common.medical_text import words
from generation.llm.errors import BrokenReply
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import Draft, Models, NewSample, ReplyShape
from generation.recipes.review_sampling import ReviewShare
from mhb_site.benchmarks.mhb import control, examiner

PROMPTS = Path(__file__).parent / "prompts"
REWORD, CHECK = read_prompt(PROMPTS / "reword.md"), read_prompt(PROMPTS / "check_rewording.md")
LENGTHS = 0.6, 1.6  # of a rewording, as shares of the length of its text
SLACK = 20  # characters by which a short text may differ all the same
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Reworded(ReplyShape):
    """The texts in other words, in their order."""

    texts: list[str]


class Sameness(ReplyShape):
    """What rewordings say that their texts do not, and the reverse; empty if nothing."""

    added: str
    removed: str


def verifier(draft: Draft) -> str:
    """The role that checks a rewording: another model than the generator; '' if there is none."""
    if any(check.name in draft.checks for check in examiner.CHECKS):
        return examiner.ROLE
    if draft.record.content["kind"] == "report" and "answerable" in draft.checks:
        return "checker"
    return ""


def makes_rewording(draft: Draft) -> bool:
    """Whether the control of a draft is reworded: that it has one is only known once it is asked."""
    if not draft.settings.get("rewordings") or not verifier(draft) or not control.makes_control(draft):
        return False
    return "control" not in draft.data or control.control(draft) is not None


async def ask_rewording(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the generator for the control's texts in other words."""
    original = _texts(_control_of(draft))

    def check(reply: Reworded) -> None:
        """Raises BrokenReply for another number of texts, other numbers in one, or no rewording."""
        if len(reply.texts) != len(original):
            raise BrokenReply(f"There are {len(original)} texts to reword, not {len(reply.texts)}.")
        faults: list[str] = []
        is_reworded = False
        for text, other in zip(original, reply.texts, strict=True):
            faults += _faults(text, other)
            if words(text) != words(other):
                is_reworded = True
        BrokenReply.refuse(faults)
        if not is_reworded:
            raise BrokenReply("No text is reworded: use other words, or another order of words.")

    reply = await models.ask_structured("generator", REWORD.request({"texts": original}), Reworded, check=check)
    return [draft.extended(reworded=[text.strip() for text in reply.texts])]


def _faults(text: str, reworded: str) -> list[str]:
    least, most = LENGTHS
    if not least * len(text) - SLACK <= len(reworded.strip()) <= most * len(text) + SLACK:
        return [f"“{text[:40]}”: its rewording must have about the same length."]
    if Counter(_NUMBER.findall(text)) != Counter(_NUMBER.findall(reworded)):
        return [f"“{text[:40]}”: its rewording must have the same numbers."]
    return []


async def check_rewording(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask another model whether anything was added or removed."""
    blocks = {"original": _texts(_control_of(draft)), "reworded": draft.data["reworded"]}
    reply = await models.ask_structured(verifier(draft), CHECK.request(blocks), Sameness)
    return [draft.extended(sameness=reply.model_dump())]


def reworded(draft: Draft) -> NewSample | None:
    """The control in other words, by the same rubrics; None if it has none that says the same."""
    sameness = draft.data.get("sameness")
    original = None
    if sameness is not None:
        original = control.control(draft)
    if original is None or sameness is None or sameness["added"].strip() or sameness["removed"].strip():
        return None
    content = {**original.content, "reworded": True, **_with_texts(original, draft.data["reworded"])}
    share = float(draft.settings.get("rewordings_reviewed", 0))
    return replace(original, content=content, prompt=REWORD.label, review_share=ReviewShare(share, "reworded"))


def _control_of(draft: Draft) -> NewSample:
    original = control.control(draft)
    if original is None:
        raise LookupError(f"{draft.record.external_id}: no control to reword")
    return original


def _texts(sample: NewSample) -> list[str]:
    """The texts of a control that are reworded: the user's turns, or the question."""
    if sample.task == "dialogue":
        return [turn["content"] for turn in sample.content["turns"] if turn["role"] == "user"]
    return [sample.content["question"]]


def _with_texts(sample: NewSample, texts: Sequence[str]) -> dict[str, Any]:
    """The parts of a control's content that a rewording replaces."""
    if sample.task != "dialogue":
        return {"source_question": sample.content["question"], "question": texts[0]}
    others, turns = iter(texts), [dict(turn) for turn in sample.content["turns"]]
    for turn in turns:
        if turn["role"] == "user":
            turn["content"] = next(others)
    return {"turns": turns}
