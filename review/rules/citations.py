"""Evidence: what a citation must say, and when two of them name the same thing. Its form is checked; nothing is looked up.

The text of the case itself is a source, too, with the place in it; so is a search that found nothing, for what does not exist.

DOI: ISO 26324 as Crossref writes them (`10.<registrant>/<suffix>`, case does not matter). PMID: PubMed's number of up to eight
digits.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

from review.rules.blocks import Highlight, TrapTerm, placed

CitationKind = Literal["guideline", "doi", "pmid", "url", "book", "case", "search"]
KINDS: tuple[CitationKind, ...] = get_args(CitationKind)
PUBLISHED: tuple[CitationKind, ...] = ("guideline", "doi", "pmid", "url", "book")
Fault = Literal["citation-malformed", "citation-incomplete", "citation-duplicate"]

_ISBN = re.compile(r"ISBN(?:-1[03])?:?\s*[0-9][0-9Xx -]{8,16}", re.IGNORECASE)
_SEARCHED = re.compile(r"(?:not found|searched|search):?\s|检索|未检索到|未找到", re.IGNORECASE)
_PLACE = re.compile(r"([0-9.]{1,12}(?:\.source)?):([0-9]{1,8})-([0-9]{1,8})")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DOI = re.compile(r"10\.[0-9]{4,9}(?:\.[0-9]+)*/[^\s]+")
_DOI_PREFIX = re.compile(r"(?:https?://(?:dx\.|www\.)?doi\.org/|doi:\s*|doi\.org/)", re.IGNORECASE)
_PMID = re.compile(r"[1-9][0-9]{0,7}")
_PMID_PREFIX = re.compile(
    r"(?:https?://(?:www\.)?(?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/|pmid:?\s*)", re.IGNORECASE
)
# Inside a whole reference, as PubMed and journals give it: "Author. Title. Journal. doi: 10.1056/NEJMoa1. PMID: 123."
_DOI_WITHIN = re.compile(rf"(?<=\s)(?:doi:?\s*|(?:https?://)?(?:dx\.|www\.)?doi\.org/)({_DOI.pattern})", re.IGNORECASE)
_PMID_WITHIN = re.compile(r"(?<=\s)pmid:?\s*([1-9][0-9]{0,7})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Citation:
    """Evidence: where it stands (`reference`: guideline's name, DOI, PMID, URL, book or a part of the case itself; `section` of
    it), the passage quoted, and the day it was read (ISO date).

    Of the case itself `section` is the place of the passage, `<passage's key>:<start>-<end>` in code points. Of a search that
    found nothing `reference` is where somebody searched, `passage` the words searched for and `read_on` the day.
    """

    kind: str = ""
    reference: str = ""
    section: str = ""
    passage: str = ""
    read_on: str = ""


def recognised(reference: str) -> CitationKind | Literal[""]:
    """The kind of source that a reference names; what is no DOI, PMID, web address, ISBN or search is a guideline. Empty: it is
    empty."""
    plain = _squeezed(reference)
    if _doi(plain):
        return "doi"
    if _pmid(plain):
        return "pmid"
    if _url(plain):
        return "url"
    if _ISBN.match(plain):
        return "book"
    if _SEARCHED.match(plain):
        return "search"
    return "guideline" if plain else ""


def normalised(citation: Citation) -> Citation:
    """The same citation as it is compared and exported: DOI and PMID bare, DOI in lower case, spaces squeezed.

    What is malformed comes back as it is, trimmed.
    """
    reference = _squeezed(citation.reference)
    if citation.kind == "doi":
        reference = _doi(reference) or reference
    elif citation.kind == "pmid":
        reference = _pmid(reference) or reference
    elif citation.kind == "url":
        reference = _url(reference) or reference
    return replace(
        citation,
        reference=reference,
        section=_squeezed(citation.section),
        passage=citation.passage.strip(),
        read_on=citation.read_on.strip(),
    )


def identity(citation: Citation) -> tuple[str, str, str]:
    """What it cites, equal for two ways of writing the same: (kind, reference, section), letters folded.

    A web address of a DOI or of PubMed is that DOI or PMID; http and https, and a slash at the end, make no difference.
    """
    kind, plain = citation.kind, normalised(citation)
    reference = plain.reference
    if kind == "search":
        return kind, reference.casefold(), " ".join(plain.passage.split()).casefold()
    if kind == "url":
        if _DOI_PREFIX.match(reference) and (doi := _doi(reference)):
            kind, reference = "doi", doi
        elif _PMID_PREFIX.match(reference) and (pmid := _pmid(reference)):
            kind, reference = "pmid", pmid
        else:
            return kind, re.sub(r"^https?://(?:www\.)?", "", reference).rstrip("/"), plain.section.casefold()
    return kind, reference.casefold(), plain.section.casefold()


def latest_day() -> date:
    """The day it is where the day begins first (UTC+14): whatever is later is in the future for everybody."""
    return (datetime.now(UTC) + timedelta(hours=14)).date()


def citation_faults(citations: Sequence[Citation], *, today: date | None = None) -> list[tuple[str, Fault]]:
    """Everything that is wrong with `citations`, as (field, code); fields are `citation.<n>.<part>`, n from 1.

    The reference must have the form of its kind; a guideline and a book want their section or page too; each
    wants the passage quoted and the day it was read, not after `today` (default: the latest day anywhere on Earth).
    """
    last = today or latest_day()
    found: list[tuple[str, Fault]] = []
    seen: set[tuple[str, str, str]] = set()
    for number, citation in enumerate(citations, 1):
        where = f"citation.{number}"
        reference = _squeezed(citation.reference)
        if citation.kind not in KINDS:
            found.append((f"{where}.kind", "citation-malformed" if citation.kind else "citation-incomplete"))
        if not reference:
            found.append((f"{where}.reference", "citation-incomplete"))
        elif not _well_formed(citation.kind, reference):
            found.append((f"{where}.reference", "citation-malformed"))
        elif citation.kind in KINDS:
            cited = identity(citation)
            if cited in seen:
                found.append((f"{where}.reference", "citation-duplicate"))
            seen.add(cited)
        if citation.kind in ("guideline", "book") and not citation.section.strip():
            found.append((f"{where}.section", "citation-incomplete"))
        if not citation.passage.strip():
            found.append((f"{where}.passage", "citation-incomplete"))
        read_on = _day(citation.read_on)
        if read_on is None or read_on > last:
            found.append((f"{where}.read_on", "citation-incomplete"))
    return found


def _well_formed(kind: str, reference: str) -> bool:
    match kind:
        case "doi":
            return _doi(reference) is not None
        case "pmid":
            return _pmid(reference) is not None
        case "url":
            return _url(reference) is not None
        case _:
            return True


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _doi(text: str) -> str | None:
    if within := _DOI_WITHIN.search(text):
        text = within[1]
    prefix = _DOI_PREFIX.match(text)
    bare = text[prefix.end() :] if prefix else text
    if prefix and prefix.group().lower().startswith("http"):
        bare = unquote(bare.split("?")[0])
    bare = bare.rstrip(".,;").lower()  # copied with the end of a sentence
    return bare if _DOI.fullmatch(bare) and bare.isprintable() else None


def _pmid(text: str) -> str | None:
    if within := _PMID_WITHIN.search(text):
        return within[1]
    prefix = _PMID_PREFIX.match(text)
    bare = text[prefix.end() :].rstrip("/") if prefix else text
    return bare if _PMID.fullmatch(bare) else None


def _url(text: str) -> str | None:
    """The address with scheme and host in lower case; None for what is not http(s), has no domain, or carries a password."""
    if " " in text or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        host, _port = (
            parts.hostname or "",
            parts.port,
        )  # both can raise: a broken IPv6 address, a port that is no number
    except ValueError:
        return None
    labels = host.split(".")
    if parts.scheme not in ("http", "https") or len(labels) < 2 or not all(labels) or "@" in parts.netloc:
        return None
    return parts._replace(netloc=parts.netloc.lower()).geturl()


def _day(text: str) -> date | None:
    try:
        # fromisoformat alone takes 20260102 and 2026-W01-5 too
        return date.fromisoformat(text.strip()) if _DAY.fullmatch(text.strip()) else None
    except ValueError:
        return None


def located(citation: Citation, texts: Mapping[str, str]) -> Citation | None:
    """A passage of the case itself with its place, found by its words; None where they are not in `texts` (passages by key).

    Other citations are as they are.
    """
    if citation.kind != "case":
        return citation
    told = _PLACE.fullmatch(citation.section.strip())
    key, start, end = (told[1], int(told[2]), int(told[3])) if told else (citation.section.strip(), 0, 0)
    found = placed(Highlight(citation.passage, "", key, start, end), texts)
    if not found.passage:
        return None
    return replace(citation, passage=found.quote, section=f"{found.passage}:{found.start}-{found.end}")


def unproved(terms: Sequence[TrapTerm], sources: Sequence[Citation]) -> list[TrapTerm]:
    """The traps of which no source is of a kind that shows them."""
    cited = {citation.kind for citation in sources}
    return [term for term in terms if term.evidence and not cited & set(term.evidence)]
