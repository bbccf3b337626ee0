"""SumPubMed: articles and their abstracts as text files, in folders or in a zip archive.

A document is `text/text_N.txt` with `abstract/abstract_N.txt` and `shorter_abstract/abst_N.txt`.
Without an abstract it is refused; the shorter one may be missing. Other folders of the repository
are not read.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
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
    container_of,
    first_byte,
    gettext_noop,
)
from generation.sources.importers.bundles import Bundle, open_bundle
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


def sniff(path: Path) -> Layout:
    """Raises WrongFormat if there is no document."""
    if not path.is_dir() and container_of(path) != ZIP_ARCHIVE:
        description = "It is a file"
        if first_byte(path) == b"[":
            description = "It is a JSON array"
        raise WrongFormat(f"{description}; SumPubMed is a folder or a zip archive of text files.")
    with _open(path) as bundle:
        if not _files_by_number(bundle.files.names())["text"]:
            raise WrongFormat(f"The {bundle.kind} has no text/text_N.txt.")
        if bundle.kind == "folder":
            return Layout("folder")
        return Layout("zip")


def _open(path: Path) -> AbstractContextManager[Bundle]:
    return open_bundle(path, lambda _name: False)  # each text is read as it is needed


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each article.

    Row.content: {kind: 'article', dataset: 'sumpubmed', text, abstract, shorter_abstract, split}.

    Row.private is empty.
    """
    split = tabular.file_of(path, layout).split
    with _open(path) as bundle:
        files = _files_by_number(bundle.files.names())
        for number in sorted(files["text"]):
            document = {part: numbered.get(number) for part, numbered in files.items()}
            row = partial(_row, split=split, number=number, bundle=bundle)
            yield tabular.read_or_refused(document, f"document {number}", row)


def _files_by_number(names: Iterable[str]) -> dict[str, dict[int, str]]:
    """Part -> document number -> name of its file, all below one folder.

    Of several folders with texts it is the uppermost, as each may number its documents from 1.
    """
    found = []
    for file in sorted(names):
        match = _NAME.search(file)
        if match and _PARTS[match[1].lower()] == match[2].lower():
            found.append((match, file))
    roots = [file[: match.start(1)] for match, file in found if match[1].lower() == "text"]
    root = min(roots, key=lambda folder: folder.count("/"), default="")
    files: dict[str, dict[int, str]] = {part: {} for part in _PARTS}
    for match, file in found:
        if file[: match.start(1)] == root:
            files[match[1].lower()].setdefault(int(match[3]), file)
    return files


def _row(record: dict[str, Any], *, split: str, number: int, bundle: Bundle) -> Row:
    if record["abstract"] is None:
        raise Malformed("It has no abstract.")
    texts = dict.fromkeys(record, "")
    for part, file in record.items():
        if file:
            texts[part] = _text(bundle, file)
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


def _text(bundle: Bundle, file: str) -> str:
    try:
        data = bundle.files.read(file) or b""
        if len(data) > MAX_RECORD:
            raise Malformed(f"It is longer than {MAX_RECORD:,} bytes.")
        return decoded(data).strip()
    except Malformed as error:
        raise Malformed(f"'{file}': {error}") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"'{file}' is not UTF-8 (byte {error.start + 1}).") from None
