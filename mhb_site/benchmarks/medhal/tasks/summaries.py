"""Summaries: an abstract is factual; with one of its sentences altered by a model, and nothing else changed, it is not."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mhb_site.benchmarks.medhal.tasks.draw import drawn
from mhb_site.benchmarks.medhal.tasks.pair import Pair
from mhb_site.benchmarks.medhal.tasks.sentences import Sentence, sentences

KIND = "article"
# (context, summary); the released code has all three of each document, and so has Table 2 by its numbers.
THREE = (("text", "abstract"), ("text", "shorter_abstract"), ("abstract", "shorter_abstract"))
# What is no part of an abstract, from its first word on: notes of the publisher, keywords, the copyright.
_BOILERPLATE = re.compile(
    r"\n\s*(?:electronic supplementary material\b|key\s?words?\s*:?\s*(?:\n|$)|issue-copyright|trial registration\s*\n)"
    r"|issue-copyright-statement.*|\bkeywords\b\s*:?\s*\n",
    re.IGNORECASE,
)
# The shorter abstracts are lines in the order of their weight, among which the publisher's may stand anywhere.
_LINE = re.compile(
    r"issue-copyright|https?://|electronic supplementary|online version of this article|^\s*key\s?words?\b",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[.!?]\s*[\"')\]]*$")
_HEADING = re.compile(r"[A-Z][A-Z &/,-]{2,60}")


def pairs(content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any]) -> Sequence[Pair]:
    """A pair for each summary of the document."""
    wanted = THREE if settings["summaries"] == "three" else THREE[:1]
    return [
        _pair(content, field, summary, external_id, settings) for field, summary in wanted if content[summary].strip()
    ]


def _pair(content: Mapping[str, Any], field: str, name: str, external_id: str, settings: Mapping[str, Any]) -> Pair:
    place = f"{field}-{name}"
    summary = without_lines(content[name]) if name == "shorter_abstract" else cleaned(content[name])
    able = alterable(summary, settings["summary_sentence"])
    if not able:
        return Pair("summarization", place=place, out="no-sentence")
    chosen = able[drawn(len(able), settings["seed"], "sentence", external_id, place)]
    return Pair("summarization", place=place, field=field, right=chosen.text, summary=summary, start=chosen.start)


def alterable(summary: str, shortest: int) -> list[Sentence]:
    """The sentences of which one may be altered: long enough, no headings, and never the last one."""
    found = [one for one in sentences(summary) if not _HEADING.fullmatch(one.text)]
    return [one for one in found[:-1] if len(one.text) >= shortest]


def cleaned(abstract: str) -> str:
    """An abstract without the publisher's notes and keywords behind it."""
    text = abstract
    if match := _BOILERPLATE.search(text):
        text = text[: match.start()]
    text = text.strip()
    # Keywords without a heading: the last paragraph, run together and without a full stop.
    head, blank, tail = text.rpartition("\n\n")
    if blank and head.strip() and not _WORDS.search(tail) and "\n" not in tail.strip():
        text = head.strip()
    return text


def without_lines(abstract: str) -> str:
    """A shorter abstract without the lines that are the publisher's."""
    return "\n".join(line for line in abstract.strip().splitlines() if line.strip() and not _LINE.search(line))


def in_place(altered: str, original: str) -> str:
    """A model's sentence in the letters of its surroundings: among small letters, a capital would give it away."""
    text = " ".join(altered.split()).strip('"“”')
    return text.lower() if original == original.lower() else text
