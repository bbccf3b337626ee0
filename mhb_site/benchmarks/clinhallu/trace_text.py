"""Traces as text: three stages under their headers, and the answer. Read by code as the released code reads them."""

import re
from dataclasses import dataclass

VISUAL, KNOWLEDGE, REASONING = "visual", "knowledge", "reasoning"
STAGES = (VISUAL, KNOWLEDGE, REASONING)
HEADERS = {VISUAL: "[Visual Recognition]", KNOWLEDGE: "[Knowledge Recall]", REASONING: "[Reasoning]"}
ANSWER = "[Answer]"
LEAST_WORDS = 3
_HEADER = re.compile("|".join(re.escape(header) for header in HEADERS.values()), re.IGNORECASE)
_ANSWER = re.compile(rf"^[ \t]*{re.escape(ANSWER)}[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
_STAGE_OF = {header.casefold(): stage for stage, header in HEADERS.items()}


@dataclass(frozen=True, slots=True)
class Trace:
    """The stages of a trace and its answer; '' for what it has not."""

    visual: str = ""
    knowledge: str = ""
    reasoning: str = ""
    answer: str = ""

    def stage(self, name: str) -> str:
        found: str = getattr(self, name)
        return found

    def fault(self) -> str:
        """What makes it invalid: a stage of less than three words, or no answer; '' where nothing does."""
        for stage in STAGES:
            if fault := stage_fault(stage, self.stage(stage)):
                return fault
        return "" if self.answer else f"It has no {ANSWER}."


def stage_fault(stage: str, text: str) -> str:
    """Why a stage cannot be judged or kept; '' where it can."""
    words = len(text.split())
    return "" if words >= LEAST_WORDS else f"{HEADERS[stage]} has {words} words; {LEAST_WORDS} are needed."


def read_trace(text: str) -> Trace:
    """The trace in a text. Of several sections under one header the first counts; the answer's line is no part of a stage."""
    found: dict[str, str] = {}
    marks = list(_HEADER.finditer(text))
    answer = ""
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        section = text[mark.end() : end]
        stage = _STAGE_OF[mark.group().casefold()]
        if stage == REASONING and not answer and (line := _ANSWER.search(section)):
            answer = (line.group(1) or section[line.end() :].strip().partition("\n")[0]).strip()
            section = section[: line.start()]
        found.setdefault(stage, section.strip(" \t\r\n:*#"))
    return Trace(**found, answer=answer)


def write_stages(**stages: str) -> str:
    """Stages under their headers in their order, as a prefix that a model's answer continues."""
    return "".join(f"{HEADERS[stage]}\n{stages[stage].strip()}\n\n" for stage in STAGES if stage in stages)
