"""Summaries: an abstract is factual; with one sentence altered by a model, it is not."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mhb_site.benchmarks.medhal.tasks.pair import Pair, draw_index
from mhb_site.benchmarks.medhal.tasks.sentences import Sentence, sentences

KIND = "article"
# (context, summary). The released code makes all three pairs per document, as the numbers of Table
# 2 imply.
CONTEXT_SUMMARY_FIELDS = (("text", "abstract"), ("text", "shorter_abstract"), ("abstract", "shorter_abstract"))
SUMMARIES = {"three": 3, "one": 1}  # how many of these a document gives
# The beginning of text that is not part of an abstract: publisher's notes, keywords, the copyright.
_BOILERPLATE = re.compile(
    r"\n[^\S\n]*+(?:electronic supplementary material\b|key\s?words?[^\S\n]*+:?[^\S\n]*+(?:\n|$)|issue-copyright"
    r"|trial registration[^\S\n]*+\n)|issue-copyright-statement.*|\bkeywords\b[^\S\n]*+:?[^\S\n]*+\n",
    re.IGNORECASE,
)
# The shorter abstracts are lines ordered by weight, so the publisher's lines can be anywhere.
_PUBLISHER_LINE = re.compile(
    r"issue-copyright|https?://|electronic supplementary|online version of this article|^\s*key\s?words?\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s*[\"')\]]*$")
_HEADING = re.compile(r"[A-Z][A-Z &/,-]{2,60}")


def pairs(content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any]) -> Sequence[Pair]:
    """A pair for each summary of the document."""
    made = []
    for field, summary in CONTEXT_SUMMARY_FIELDS[: SUMMARIES[settings["summaries"]]]:
        if content[summary].strip():
            made.append(_pair(content, field, summary, external_id, settings))
    return made


def _pair(
    content: Mapping[str, Any], field: str, summary_field: str, external_id: str, settings: Mapping[str, Any]
) -> Pair:
    place = f"{field}-{summary_field}"
    if summary_field == "shorter_abstract":
        summary = strip_publisher_lines(content[summary_field])
    else:
        summary = strip_boilerplate(content[summary_field])
    candidates = alterable_sentences(summary, settings["summary_sentence"], last=settings["summary_last"])
    if not candidates:
        return Pair("summarization", place=place, out="no-sentence")
    chosen = candidates[draw_index(len(candidates), settings["seed"], "sentence", external_id, place)]
    return Pair("summarization", place=place, field=field, right=chosen.text, summary=summary, start=chosen.start)


def alterable_sentences(summary: str, shortest: int, *, last: bool = True) -> list[Sentence]:
    """The sentences that may be altered: long enough and no heading. `last`: also the last one."""
    parts = [sentence for sentence in sentences(summary) if not _HEADING.fullmatch(sentence.text)]
    if not last:
        parts = parts[:-1]
    return [sentence for sentence in parts if len(sentence.text) >= shortest]


def strip_boilerplate(abstract: str) -> str:
    """An abstract without the publisher's notes and keywords after it."""
    text = abstract
    if match := _BOILERPLATE.search(text):
        text = text[: match.start()]
    text = text.strip()
    # Keywords without a heading: the last paragraph, run together and without a full stop.
    head, blank, tail = text.rpartition("\n\n")
    if blank and head.strip() and not _SENTENCE_END.search(tail) and "\n" not in tail.strip():
        text = head.strip()
    return text


def strip_publisher_lines(abstract: str) -> str:
    """A shorter abstract without the publisher's lines."""
    lines = []
    for line in abstract.strip().splitlines():
        if line.strip() and not _PUBLISHER_LINE.search(line):
            lines.append(line)
    return "\n".join(lines)
