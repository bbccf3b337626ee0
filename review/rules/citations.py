"""Evidence: what a citation must contain, and when two citations refer to the same source.

Only the form of a citation is checked; nothing is looked up. The text of the case can be a source,
cited with its location, and so can a search without results, for something that does not exist.

DOI: ISO 26324 as Crossref writes them (`10.<registrant>/<suffix>`, case-insensitive). PMID:
PubMed's number of up to eight digits.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal, get_args
from urllib.parse import unquote, urlsplit

from review.rules import limits
from review.rules.blocks import Highlight, TrapTerm, locate_highlight

CitationKind = Literal["guideline", "doi", "pmid", "url", "book", "case", "search"]
KINDS: tuple[CitationKind, ...] = get_args(CitationKind)
CitationLevel = Literal["guideline", "review", "study", "label", "textbook", "case", "search"]
LEVELS: tuple[CitationLevel, ...] = get_args(CitationLevel)
PUBLISHED_LEVELS: tuple[CitationLevel, ...] = LEVELS[:5]
# The levels that a source of each kind can have. The first one is meant where none was chosen,
# unless the kind says nothing about it.
KIND_LEVELS: dict[str, tuple[CitationLevel, ...]] = {
    "guideline": ("guideline", "review", "label"),
    "book": ("textbook", "label"),
    "case": ("case",),
    "search": ("search",),
    "doi": PUBLISHED_LEVELS,
    "pmid": PUBLISHED_LEVELS,
    "url": PUBLISHED_LEVELS,
}
_UNTOLD: tuple[CitationKind, ...] = ("doi", "pmid", "url")
Fault = Literal["citation-malformed", "citation-incomplete", "citation-duplicate"]

_BOOK = re.compile(
    r"^ISBN(?:-1[03])?:?\s*[0-9][0-9Xx -]{8,16}|textbook|handbook|\bedition\b|教材|教科书|手册", re.IGNORECASE
)
_GUIDELINE = re.compile(r"guideline|guidance|recommendations|consensus|指南|共识|规范", re.IGNORECASE)
_SEARCH = re.compile(r"(?:not found|searched|search):?\s|检索|未检索到|未找到", re.IGNORECASE)
_LOCATION = re.compile(r"([0-9.]{1,12}(?:\.source)?):([0-9]{1,8})-([0-9]{1,8})")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DOI = re.compile(r"10\.[0-9]{4,9}(?:\.[0-9]+)*/[^\s]+")
_DOI_PREFIX = re.compile(r"(?:https?://(?:dx\.|www\.)?doi\.org/|doi:\s*|doi\.org/)", re.IGNORECASE)
_PMID = re.compile(r"[1-9][0-9]{0,7}")
_PMID_PREFIX = re.compile(
    r"(?:https?://(?:www\.)?(?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/|pmid:?\s*)", re.IGNORECASE
)
# Inside a full reference, as PubMed and journals print it:
# "Author. Title. Journal. doi: 10.1056/NEJMoa1. PMID: 123."
_DOI_WITHIN = re.compile(rf"(?<=\s)(?:doi:?\s*|(?:https?://)?(?:dx\.|www\.)?doi\.org/)({_DOI.pattern})", re.IGNORECASE)
_PMID_WITHIN = re.compile(r"(?<=\s)pmid:?\s*([1-9][0-9]{0,7})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Citation:
    """A piece of evidence.

    reference: a guideline's name, DOI, PMID, URL, book or a part of the case; for a search without
        results, where it was made.
    section: the section of the reference; for the case itself the location of the passage,
        `<passage key>:<start>-<end>` in code points.
    passage: the words quoted; for a search, the words searched for.
    read_on: the day on which the source was read or searched (ISO date).
    trap: the code of the trap that it shows to be false, in cases whose evidence is given by trap.
    level: the level of evidence; empty: as `level_of` says.
    """

    kind: Annotated[str, limits.CODE] = ""
    reference: Annotated[str, limits.REFERENCE] = ""
    section: Annotated[str, limits.SECTION] = ""
    passage: Annotated[str, limits.TEXT] = ""
    read_on: Annotated[str, limits.CODE] = ""
    trap: Annotated[str, limits.CODE] = ""
    level: Annotated[str, limits.CODE] = ""


def level_of(citation: Citation) -> str:
    """The level of evidence of a citation; empty if none was chosen and its kind leaves it open."""
    if citation.level or citation.kind in _UNTOLD:
        return citation.level
    levels = KIND_LEVELS.get(citation.kind)
    if levels:
        return levels[0]
    return ""


def recognise_kind(reference: str) -> CitationKind | Literal[""]:
    """The kind of source that a reference looks like; empty if its words leave that open."""
    squeezed = _squeeze(reference)
    for kind in _UNTOLD:
        if _NORMALISED[kind](squeezed):
            return kind
    if _SEARCH.match(squeezed):
        return "search"
    if _BOOK.search(squeezed):
        return "book"
    if _GUIDELINE.search(squeezed):
        return "guideline"
    return ""


def normalise(citation: Citation) -> Citation:
    """The citation as compared and exported: bare DOI and PMID, lower-case DOI, single spaces.

    A malformed reference is only squeezed.
    """
    reference = _squeeze(citation.reference)
    if normalised := _NORMALISED.get(citation.kind):
        reference = normalised(reference) or reference
    return replace(
        citation,
        reference=reference,
        section=_squeeze(citation.section),
        passage=citation.passage.strip(),
        read_on=citation.read_on.strip(),
        level=level_of(citation) if citation.trap else citation.level,
    )


def identity(citation: Citation) -> tuple[str, str, str]:
    """A key of the cited source, equal for all its spellings: (kind, reference, section).

    The URL of a DOI or of a PubMed entry equals the DOI or PMID. The scheme (http or https), `www.`
    and a trailing slash of a URL make no difference.
    """
    kind, normal = citation.kind, normalise(citation)
    reference = normal.reference
    if kind == "search":
        return kind, reference.casefold(), " ".join(normal.passage.split()).casefold()
    if kind == "url":
        if _DOI_PREFIX.match(reference) and (doi := _doi(reference)):
            kind, reference = "doi", doi
        elif _PMID_PREFIX.match(reference) and (pmid := _pmid(reference)):
            kind, reference = "pmid", pmid
        else:
            return kind, re.sub(r"^https?://(?:www\.)?", "", reference).rstrip("/"), normal.section.casefold()
    return kind, reference.casefold(), normal.section.casefold()


def latest_day() -> date:
    """The latest day anywhere on Earth (UTC+14); any later day is in everybody's future."""
    return (datetime.now(UTC) + timedelta(hours=14)).date()


def citation_faults(citations: Sequence[Citation], *, today: date | None = None) -> list[tuple[str, Fault]]:
    """All faults of `citations`, as (field, code); fields are `citation.<n>.<part>`, n from 1.

    The reference must have the form of its kind; guidelines and books need a section or page; all
    need the quoted passage and the day it was read, no later than `today` (default:
    `latest_day()`).
    """
    last_day = today or latest_day()
    faults: list[tuple[str, Fault]] = []
    seen: set[tuple[str, ...]] = set()
    for number, citation in enumerate(citations, 1):
        field = f"citation.{number}"
        reference = _squeeze(citation.reference)
        if citation.kind not in KINDS:
            faults.append((f"{field}.kind", "citation-malformed" if citation.kind else "citation-incomplete"))
        if not reference:
            faults.append((f"{field}.reference", "citation-incomplete"))
        elif (normalised := _NORMALISED.get(citation.kind)) and normalised(reference) is None:
            faults.append((f"{field}.reference", "citation-malformed"))
        elif citation.kind in KINDS:
            source = (*identity(citation), citation.trap)
            if source in seen:
                faults.append((f"{field}.reference", "citation-duplicate"))
            seen.add(source)
        if citation.level and citation.level not in KIND_LEVELS.get(citation.kind, LEVELS):
            faults.append((f"{field}.level", "citation-malformed"))
        if citation.kind in ("guideline", "book") and not citation.section.strip():
            faults.append((f"{field}.section", "citation-incomplete"))
        if not citation.passage.strip():
            faults.append((f"{field}.passage", "citation-incomplete"))
        read_on = _day(citation.read_on)
        if read_on is None or read_on > last_day:
            faults.append((f"{field}.read_on", "citation-incomplete"))
    return faults


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _doi(text: str) -> str | None:
    if within := _DOI_WITHIN.search(text):
        text = within[1]
    prefix = _DOI_PREFIX.match(text)
    bare = text
    if prefix:
        bare = text[prefix.end() :]
    if prefix and prefix.group().lower().startswith("http"):
        bare = unquote(bare.split("?")[0])
    bare = bare.rstrip(".,;").lower()  # punctuation copied from the end of a sentence
    if _DOI.fullmatch(bare) and bare.isprintable():
        return bare
    return None


def _pmid(text: str) -> str | None:
    if within := _PMID_WITHIN.search(text):
        return within[1]
    prefix = _PMID_PREFIX.match(text)
    bare = text
    if prefix:
        bare = text[prefix.end() :].rstrip("/")
    if _PMID.fullmatch(bare):
        return bare
    return None


def _url(text: str) -> str | None:
    """The normalised URL; None if not http(s), without a domain, or with a password."""
    if " " in text or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        # Both raise ValueError: for a malformed IPv6 address, and for a port that is not a number.
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return None
    labels = host.split(".")
    if parts.scheme not in ("http", "https") or len(labels) < 2 or not all(labels) or "@" in parts.netloc:
        return None
    return parts._replace(netloc=parts.netloc.lower()).geturl()


_NORMALISED: dict[str, Callable[[str], str | None]] = {"doi": _doi, "pmid": _pmid, "url": _url}


def _day(text: str) -> date | None:
    try:
        # fromisoformat alone would also accept 20260102 and 2026-W01-5
        if _DAY.fullmatch(text.strip()):
            return date.fromisoformat(text.strip())
        return None
    except ValueError:
        return None


def locate_passage(citation: Citation, texts: Mapping[str, str]) -> Citation | None:
    """Locate a quotation from the case by its words and set its `section`; None if not in `texts`.

    `texts` are the passages of the case by key. Citations of other kinds are returned unchanged.
    """
    if citation.kind != "case":
        return citation
    quotation = Highlight(citation.passage, passage=citation.section.strip())
    if location := _LOCATION.fullmatch(quotation.passage):
        key, start, end = location.groups()
        quotation = replace(quotation, passage=key, start=int(start), end=int(end))
    quotation = locate_highlight(quotation, texts)
    if not quotation.passage:
        return None
    return replace(citation, passage=quotation.quote, section=f"{quotation.passage}:{quotation.start}-{quotation.end}")


def is_by_trap(terms: Sequence[TrapTerm]) -> bool:
    """Whether every citation of the case has to name the trap that it is about."""
    return any(term.levels for term in terms)


def trap_faults(terms: Sequence[TrapTerm], sources: Sequence[Citation]) -> list[tuple[str, Fault]]:
    """The faults of traps and levels, as in `citation_faults`, where evidence is given by trap."""
    if not is_by_trap(terms):
        return []
    codes = {term.code for term in terms}
    faults: list[tuple[str, Fault]] = []
    for number, citation in enumerate(sources, 1):
        if citation.trap not in codes:
            faults.append((f"citation.{number}.trap", "citation-malformed" if citation.trap else "citation-incomplete"))
        if not level_of(citation):
            faults.append((f"citation.{number}.level", "citation-incomplete"))
    return faults


def unproved_traps(terms: Sequence[TrapTerm], sources: Sequence[Citation]) -> list[TrapTerm]:
    """The traps for which none of the sources can show that they are false.

    A source about another trap shows nothing about this one, where evidence is given by trap.
    """
    kinds = {citation.kind for citation in sources}
    levels = {(citation.trap, level_of(citation)) for citation in sources}
    unsupported = []
    for term in terms:
        lacks_level = bool(term.levels) and not any((term.code, level) in levels for level in term.levels)
        lacks_kind = bool(term.evidence) and not kinds & set(term.evidence)
        if lacks_level or lacks_kind:
            unsupported.append(term)
    return unsupported
