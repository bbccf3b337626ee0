"""Traces as text: three stages under headers, and the answer; read as the released code does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.llm.types import Message, Request
from generation.recipes.prompts import NO_TEXTS, Prompt

VISUAL, KNOWLEDGE, REASONING = "visual", "knowledge", "reasoning"
STAGES = (VISUAL, KNOWLEDGE, REASONING)
STAGE_LABELS = {
    VISUAL: _("Visual recognition"),
    KNOWLEDGE: _("Knowledge recall"),
    REASONING: _("Reasoning"),
}
HEADERS = {VISUAL: "[Visual Recognition]", KNOWLEDGE: "[Knowledge Recall]", REASONING: "[Reasoning]"}
ANSWER = "[Answer]"
MIN_WORDS = 3
_HEADER = re.compile("|".join(re.escape(header) for header in HEADERS.values()), re.IGNORECASE)
_ANSWER = re.compile(rf"^[ \t]*{re.escape(ANSWER)}[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
_STAGE_OF = {header.casefold(): stage for stage, header in HEADERS.items()}


@dataclass(frozen=True, slots=True)
class Trace:
    """The stages of a trace and its answer; '' for missing ones."""

    visual: str = ""
    knowledge: str = ""
    reasoning: str = ""
    answer: str = ""

    def stage(self, name: str) -> str:
        text: str = getattr(self, name)
        return text

    def fault(self) -> str:
        """Why the trace is invalid (a stage of under three words, no answer); '' if it is valid."""
        for stage in STAGES:
            if fault := stage_fault(stage, self.stage(stage)):
                return fault
        if self.answer:
            return ""
        return f"It has no {ANSWER}."


def stage_fault(stage: str, text: str) -> str:
    """Why a stage cannot be judged or kept; '' if it can."""
    words = len(text.split())
    if words >= MIN_WORDS:
        return ""
    return f"{HEADERS[stage]} has {words} words; {MIN_WORDS} are needed."


def read_trace(text: str) -> Trace:
    """The trace in a text.

    If a header occurs several times, its first section counts. The answer's line is not part of a
    stage.
    """
    stages: dict[str, str] = {}
    marks = list(_HEADER.finditer(text))
    answer = ""
    for index, mark in enumerate(marks):
        if index + 1 < len(marks):
            end = marks[index + 1].start()
        else:
            end = len(text)
        section = text[mark.end() : end]
        stage = _STAGE_OF[mark.group().casefold()]
        if stage == REASONING and not answer and (answer_line := _ANSWER.search(section)):
            answer = (answer_line.group(1) or section[answer_line.end() :].strip().partition("\n")[0]).strip()
            section = section[: answer_line.start()]
        stages.setdefault(stage, section.strip(" \t\r\n:*#"))
    return Trace(**stages, answer=answer)


def write_stages(**stages: str) -> str:
    """The given stages under their headers, in order: a prefix for a model to continue."""
    text = ""
    for stage in STAGES:
        if stage in stages:
            text += f"{HEADERS[stage]}\n{stages[stage].strip()}\n\n"
    return text


def request_with_images(
    prompt: Prompt, images: Sequence[str], data: Mapping[str, object], texts: Mapping[str, str] = NO_TEXTS, **more: Any
) -> Request:
    """The request of a prompt, followed by images.

    Several are numbered, so that texts can refer to them. `more`: other fields of the request.
    """
    request = prompt.request(data, texts, **more)
    [*before, last] = request.messages
    note = ""
    if len(images) > 1:
        numbers = ", ".join(f"image {number}" for number in range(1, len(images) + 1))
        note = f"\n\nThe images follow in this order: {numbers}. Refer to them by these numbers."
    return replace(request, messages=(*before, Message.with_images(last.role, last.text + note, images)))
