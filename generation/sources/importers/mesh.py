"""MeSH, the thesaurus of the National Library of Medicine: descriptors as XML (``desc2025.xml``).

Only the id, name and tree positions of each descriptor are read. The parser is expat, which streams
and builds no tree. Entity declarations are refused, so nothing is expanded and no other file is
read.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.parsers import expat

from generation.sources.importers.base import (
    MAX_RECORD,
    REST,
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    first_byte,
    gettext_noop,
)
from generation.sources.importers.tabular import read_or_refused

name = "mesh"
label = "Medical Subject Headings (MeSH)"
licence = "NLM MeSH"  # terms of its own, named in `restrictions`
citation = "Medical Subject Headings (MeSH). National Library of Medicine (US), Bethesda."
restrictions = gettext_noop("name the National Library of Medicine as the source, and the year of the edition")

_ROOT, _RECORD = "DescriptorRecordSet", "DescriptorRecord"
_UI = "DescriptorUI"
_NAME = "DescriptorName/String"
_TREE = "TreeNumberList/TreeNumber"
# Of the descriptor itself: those of descriptors it refers to are nested deeper.
_WANTED = frozenset({_UI, _NAME, _TREE})
_UI_SHAPE = re.compile(r"D[0-9]{6,12}")
_TREE_SHAPE = re.compile(r"[A-Z][0-9]{2}(\.[0-9]{3}){0,20}")
_ENCODINGS = frozenset({"UTF-8", "UTF8", "US-ASCII", "ASCII"})
_CHUNK = 64 * 1024  # bytes
_MAX_DEPTH = 50  # nested elements; published files have nine levels
_NOT_MESH = "It is a web page or other XML: MeSH descriptors are a DescriptorRecordSet."


def sniff(path: Path) -> Layout:
    """Raises WrongFormat unless it is a descriptor set with a readable one among the first."""
    problem = "It is a DescriptorRecordSet without descriptors."
    for place, entry in enumerate(_entries(path), 1):
        if isinstance(entry, Row):
            return Layout("xml")
        problem = f"{entry.where}: {entry.reason}"
        if place == SNIFF_LIMIT:
            break
    raise WrongFormat(problem)


def rows(path: Path, _layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: {kind: 'term', name, trees: [str]}; Row.private is empty.

    Some descriptors have no position in the tree.
    """
    return _entries(path)


def _entries(path: Path) -> Iterator[Row | Refusal]:
    match first_byte(path, xml=True):
        case b"<":
            pass
        case b"[" | b"{":
            raise WrongFormat("It is a JSON array or object; MeSH is XML.")
        case _:
            raise WrongFormat("It is not XML.")
    reader = _Reader()
    with path.open("rb") as file:
        while True:
            chunk = file.read(_CHUNK)
            problem = reader.feed(chunk)
            if problem and not reader.is_mesh:
                raise WrongFormat(problem)
            yield from reader.finished
            reader.finished = []
            if problem:
                yield Refusal(f"record {reader.count + 1}{REST}", problem)
            if problem or not chunk:
                return


class _Reader:
    """The callbacks of expat.

    Holds the descriptor being read, and finished ones until they are taken.

    `is_mesh`: the root element has been seen and is a DescriptorRecordSet.
    """

    def __init__(self) -> None:
        self.count = 0  # descriptors read to their end
        self.is_mesh = False
        self.finished: list[Row | Refusal] = []
        self._path: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self._text: list[str] | None = None  # of the current element, if it is a wanted one
        self._has_skipped_entity = False  # expat skipped an entity
        self._language = ""
        self._size = 0  # bytes fed since a descriptor last ended
        # UTF-8 whatever the file declares: expat would otherwise ask Python for any codec.
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.XmlDeclHandler = self._declaration
        self._parser.EntityDeclHandler = partial(_refuse, "It declares entities, which are never expanded.")
        # A default value, given to every element of that name, would expand like an entity.
        self._parser.AttlistDeclHandler = partial(_refuse, "It declares attributes, which are never filled in.")
        self._parser.SkippedEntityHandler = self._skipped

    def feed(self, chunk: bytes) -> str:
        """Parse a chunk (b"" ends the file). Returns the problem that stops the reading, or ''."""
        self._size += len(chunk)
        try:
            if self._size > MAX_RECORD:
                raise Malformed(
                    f"The file cannot be read from here on: the record is longer than {MAX_RECORD:,} bytes."
                )
            self._parser.Parse(chunk, not chunk)
        except Malformed as error:
            return str(error)
        except (expat.ExpatError, ValueError, LookupError):
            # The parser's message is not passed on: it may quote the file.
            reason = "it ends before its last element does"
            if chunk:
                reason = "what follows is not XML"
            if self.is_mesh:
                return f"The file cannot be read from here on: {reason}."
            return _NOT_MESH
        return ""

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._path:
            if tag != _ROOT:
                raise Malformed(_NOT_MESH)
            self.is_mesh = True
            if attributes.get("LanguageCode") == "eng":
                self._language = "en"
            else:
                self._language = ""
        self._path.append(tag)
        if len(self._path) > _MAX_DEPTH:
            raise Malformed(f"The file cannot be read from here on: its elements are more than {_MAX_DEPTH} deep.")
        if len(self._path) > 2 and self._place_in_record() in _WANTED:
            self._text = []
        else:
            self._text = None

    def _place_in_record(self) -> str:
        if self._path[1] == _RECORD:
            return "/".join(self._path[2:])
        return ""

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        if self._text is not None:
            self._texts.setdefault(self._place_in_record(), []).append("".join(self._text).strip())
            self._text = None
        if len(self._path) == 2:
            self.count += 1
            self._size = 0
            row = partial(_row, tag=tag, has_skipped_entity=self._has_skipped_entity, language=self._language)
            self.finished.append(read_or_refused(self._texts, f"record {self.count}", row))
            self._texts, self._has_skipped_entity = {}, False
        self._path.pop()

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.upper() not in _ENCODINGS:
            raise Malformed("It declares another encoding than UTF-8: save it as UTF-8.")

    def _skipped(self, *skipped: Any) -> None:
        self._has_skipped_entity = True


def _refuse(reason: str, *_declared: Any) -> None:
    raise Malformed(reason)


def _row(texts: dict[str, list[str]], *, tag: str, has_skipped_entity: bool, language: str) -> Row:
    if tag != _RECORD:
        raise Malformed("It is not a DescriptorRecord.")
    if has_skipped_entity:
        raise Malformed("It refers to an entity, which is never expanded.")
    identifier, heading = _single_text(texts, _UI), _single_text(texts, _NAME)
    if not _UI_SHAPE.fullmatch(identifier):
        raise Malformed("Its DescriptorUI is not a D with at least six digits.")
    trees = texts.get(_TREE, [])
    if not all(map(_TREE_SHAPE.fullmatch, trees)):
        raise Malformed("One of its TreeNumbers is not valid.")
    content = {"kind": "term", "name": heading, "trees": trees}
    return Row(identifier, heading, language, content, match=heading)


def _single_text(all_texts: dict[str, list[str]], place: str) -> str:
    texts = all_texts.get(place, [])
    if len(texts) > 1 and any(texts):
        raise Malformed(f"It has more than one {place}.")
    if not any(texts):
        raise Malformed(f"It has no {place}.")
    return texts[0]
