"""SumPubMed: articles and their abstracts as text files, in folders or in a zip archive.

A document is `text/text_N.txt` with `abstract/abstract_N.txt` and `shorter_abstract/abst_N.txt`.
Without an abstract it is refused; the shorter one may be missing. Other folders of the repository
are not read.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    MAX_RECORD,
    ZIP_ARCHIVE,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    first_byte,
    gettext_noop,
)
from generation.sources.importers.bundles import UNREADABLE, archive_members, open_archive
from review.rules.text_files import decoded

name = "sumpubmed"
label = "SumPubMed"
licence = "MIT"
citation = (
    "Gupta V, Bharti P, Nokhiz P, Karnick H. SumPubMed: Summarization Dataset of PubMed Scientific Articles. Proceedings"
    " of the ACL-IJCNLP 2021 Student Research Workshop, 292-303 (2021)."
)
restrictions = gettext_noop("non-commercial, academic use")
containers = (ZIP_ARCHIVE,)

_PARTS = {"text": "text", "abstract": "abstract", "shorter_abstract": "abst"}
_NAME = re.compile(r"(?:^|/)(text|abstract|shorter_abstract)/(text|abstract|abst)_(\d{1,9})\.txt$", re.IGNORECASE)
_ReadFile = Callable[[str], bytes]


def sniff(path: Path) -> Layout:
    """Raises WrongFormat if there is no document."""
    if path.is_dir():
        if _folder(path) is None:
            raise WrongFormat("The folder has no text/text_N.txt, in it or one level below.")
        return Layout("folder")
    if not _is_zip(path):
        description = "It is a JSON array" if first_byte(path) == b"[" else "It is a file"
        raise WrongFormat(f"{description}; SumPubMed is a folder or a zip archive of text files.")
    with open_archive(path) as archive:
        if not _files_by_number(list(archive_members(archive)))["text"]:
            raise WrongFormat("The zip archive has no text/text_N.txt.")
    return Layout("zip")


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each article.

    Row.content: {kind: 'article', dataset: 'sumpubmed', text, abstract, shorter_abstract, split}.

    Row.private is empty.
    """
    match layout.name:
        case "folder":
            return _folder_rows(path, tabular.file_of(path, layout).split)
        case "zip":
            return _zip_rows(path, tabular.file_of(path, layout).split)
    raise WrongFormat(f"There is no layout {layout.name!r} of SumPubMed.")


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _folder(path: Path) -> Path | None:
    """The parent of the three folders: `path`, or a folder one level below."""
    below = sorted(folder for folder in path.iterdir() if folder.is_dir())[:100]
    for place in (path, *below):
        texts = place / "text"
        if texts.is_dir() and next(texts.glob("text_*.txt"), None):
            return place
    return None


def _files_by_number(names: list[str]) -> dict[str, dict[int, str]]:
    """Part -> document number -> name of its file; the first if there are several."""
    files: dict[str, dict[int, str]] = {part: {} for part in _PARTS}
    for file in names:
        match = _NAME.search(file)
        if match and _PARTS[match[1].lower()] == match[2].lower():
            files[match[1].lower()].setdefault(int(match[3]), file)
    return files


def _folder_rows(path: Path, split: str) -> Iterator[Row | Refusal]:
    place = _folder(path)
    if place is None:
        raise WrongFormat("The folder has no text/text_N.txt, in it or one level below.")
    exists = {part: (place / part).is_dir() for part in _PARTS}
    names = [f"{part}/{file}" for part in _PARTS if exists[part] for file in os.listdir(place / part)]

    folder = str(place)

    def read(file: str) -> bytes:
        # For 100,000 small files, `open` takes twice as long.
        descriptor = os.open(f"{folder}/{file}", os.O_RDONLY)
        try:
            # Not more than the file has: allocating MAX_RECORD takes longer than reading most
            # files.
            return os.read(descriptor, min(os.fstat(descriptor).st_size, MAX_RECORD) + 1)
        finally:
            os.close(descriptor)

    yield from _rows(_files_by_number(names), read, split)


def _zip_rows(path: Path, split: str) -> Iterator[Row | Refusal]:
    if not _is_zip(path):
        raise WrongFormat("It is not a zip archive.")
    with open_archive(path) as archive:
        members = archive_members(archive)

        def read(file: str) -> bytes:
            try:
                with archive.open(members[file]) as member:
                    return member.read(MAX_RECORD + 1)
            except UNREADABLE:
                raise Malformed(f"'{file}' in the archive cannot be read: it is damaged or encrypted.") from None

        yield from _rows(_files_by_number(list(members)), read, split)


def _rows(files: dict[str, dict[int, str]], read: _ReadFile, split: str) -> Iterator[Row | Refusal]:
    for number in sorted(files["text"]):
        document = {part: numbered.get(number) for part, numbered in files.items()}
        row = partial(_row, split=split, number=number, read=read)
        yield tabular.read_or_refused(document, f"document {number}", row)


def _row(record: dict[str, Any], *, split: str, number: int, read: _ReadFile) -> Row:
    if record["abstract"] is None:
        raise Malformed("It has no abstract.")
    texts = {part: _text(read, file) if file else "" for part, file in record.items()}
    for part in ("text", "abstract"):
        if not texts[part]:
            raise Malformed(f"Its {part} is blank.")
    return Row(
        external_id=str(number),
        title=texts["abstract"].removeprefix("BACKGROUND"),
        language="en",
        content={"kind": "article", "dataset": name, **texts, "split": split},
        facets={"split": split or "unknown"},
    )


def _text(read: _ReadFile, file: str) -> str:
    data = read(file)
    if len(data) > MAX_RECORD:
        raise Malformed(f"'{file}' is longer than {MAX_RECORD:,} bytes.")
    try:
        return decoded(data).strip()
    except UnicodeDecodeError as error:
        raise Malformed(f"'{file}' is not UTF-8 (byte {error.start + 1}).") from None
