"""PathVQA: questions and answers about pathology images, made from the captions of textbooks.

Parquet with the images inside, or the original layout: `qas/<split>/<split>_qa.pkl` beside
`images/<split>/`. The pickles are read as plain values and nothing else.

Duplicates are handled as in the data that ClinHallu's authors publish: if a question (ignoring
case) is repeated about the same image, it is imported once if the answers are the same, and not at
all if they differ.
"""

import hashlib
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from generation.sources.importers import visual_questions
from generation.sources.importers.base import (
    PARQUET_FILE,
    PICKLE,
    ZIP_ARCHIVE,
    Layout,
    Malformed,
    RecordImage,
    Refusal,
    Row,
    WrongFormat,
    gettext_noop,
    required_text,
)
from generation.sources.importers.bundles import Bundle, DataFile, inline_picture, open_bundle
from generation.sources.importers.pickles import load_plain
from generation.sources.importers.visual_questions import (
    answer_text,
    check_layout,
    embedded_image,
    is_data_file,
    matching_files,
    shard_prefix,
    split_of,
)

name = "pathvqa"
label = "PathVQA"
licence = "MIT"
citation = (
    "He X, Zhang Y, Mou L, Xing E, Xie P. PathVQA: 30000+ Questions for Medical Visual Question Answering. arXiv:2003.10286"
    " (2020)."
)
restrictions = gettext_noop("images come from textbooks")
containers = (ZIP_ARCHIVE, PARQUET_FILE, PICKLE)

_KEYS = ("image", "question", "answer")
LEFT_OUT = "left out"


def sniff(path: Path) -> Layout:
    """Raises WrongFormat."""
    with open_bundle(path, _is_data_file) as bundle:
        [first, *_more] = _files(bundle)
        return Layout("pickle" if _is_pickle(first) else "parquet")


def _is_data_file(file_name: str) -> bool:
    return is_data_file(file_name) or file_name.lower().endswith(".pkl")


def _is_pickle(file: DataFile) -> bool:
    if file.path.suffix.lower() == ".pkl":
        return True
    with file.path.open("rb") as opened_file:  # an upload is stored under a generated name
        return opened_file.read(1) == b"\x80"


def _files(bundle: Bundle) -> list[DataFile]:
    pickled = [file for file in bundle.data if _is_pickle(file)]
    if not pickled:
        return matching_files(bundle, _KEYS)
    # Beside the questions there are vocabularies and labels, some of which are not plain values.
    question_files = [file for file in pickled if file.name.lower().endswith("_qa.pkl")] or pickled
    files = [file for file in question_files if _questions(load_plain(file.path))]
    if not files:
        raise WrongFormat("None of its pickles is a list of questions with 'image', 'question' and 'answer'.")
    return files


def _questions(value: Any) -> bool:
    return isinstance(value, list) and any(
        isinstance(question, dict) and all(key in question for key in _KEYS) for question in value[:50]
    )


def _records(file: DataFile) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    if not _is_pickle(file):
        yield from visual_questions.records(file, _KEYS)
        return
    for number, record in enumerate(load_plain(file.path), 1):
        error = Malformed("The record is not an object with texts as keys.")
        is_plain = isinstance(record, dict) and all(isinstance(key, str) for key in record)
        yield f"{file.name} record {number}", record if is_plain else error


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: as in `visual_questions.row`.

    Duplicates are refused, with the row that they repeat.
    """
    check_layout(layout, label, "pickle", "parquet")
    return _rows(path, layout.file)


def _rows(path: Path, original_name: str) -> Iterator[Row | Refusal]:
    with open_bundle(path, _is_data_file, original_name) as bundle:
        for _split, files in groupby(sorted(_files(bundle), key=_split_and_name), key=lambda file: split_of(file.name)):
            yield from _rows_of_split(list(files), bundle)


def _split_and_name(file: DataFile) -> tuple[str, str]:
    return split_of(file.name), file.name


def _rows_of_split(files: list[DataFile], bundle: Bundle) -> Iterator[Row | Refusal]:
    """The rows of all files of a split: a question may be repeated in another file."""
    with _question_database() as seen:
        for place, (_file, _number, _where, record) in enumerate(_numbered(files)):
            if isinstance(record, dict):
                _record_question(seen, record, place)
        for place, (file, number, where, record) in enumerate(_numbered(files)):
            try:
                if isinstance(record, Malformed):
                    raise record
                if (duplicate := _duplicate_refusal(seen, record, place, where)) is not None:
                    yield duplicate
                else:
                    yield _row(where, record, number, bundle, file)
            except Malformed as error:
                yield Refusal(where, str(error))


def _numbered(files: list[DataFile]) -> Iterator[tuple[DataFile, int, str, dict[str, Any] | Malformed]]:
    """(file, number in it, position, record) of every record."""
    for file in files:
        for number, (where, record) in enumerate(_records(file)):
            yield file, number, where, record


def _row(where: str, record: dict[str, Any], number: int, bundle: Bundle, file: DataFile) -> Row:
    split = split_of(file.name)
    return visual_questions.row(
        where,
        dataset=name,
        external_id=f"{split or 'row'}-{shard_prefix(file.name)}{number}",
        question=required_text(record, "question"),
        answer=answer_text(record),
        pictures=[_picture(record, bundle, file, split)],
        split=split,
    )


def _picture(record: dict[str, Any], bundle: Bundle, file: DataFile, split: str) -> RecordImage:
    image = record.get("image")
    if not isinstance(image, str):
        return inline_picture(*(embedded_image(image) or ("", None)))
    root = str(Path(file.folder).parent.parent) if _is_pickle(file) else file.folder
    root = "" if root == "." else f"{root}/"
    return bundle.picture(image, f"{root}images/{split}", f"{root}images", file.folder)


# ---------------------------------------------------------------- repeated questions about an image


@contextmanager
def _question_database() -> Iterator[sqlite3.Connection]:
    """A database of the questions seen so far, on disk so that memory stays flat."""
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(Path(folder) / "seen")) as seen:
        seen.execute("PRAGMA journal_mode = OFF")
        seen.execute("PRAGMA synchronous = OFF")
        seen.execute(
            "CREATE TABLE seen (what BLOB PRIMARY KEY, answer BLOB, number INTEGER, differs INTEGER) WITHOUT ROWID"
        )
        yield seen


def _key(record: dict[str, Any]) -> tuple[bytes, bytes] | None:
    """Digests of (question and image) and answer; None for a record that is refused anyway."""
    image = record.get("image")
    try:
        image_source = image if isinstance(image, str) else (embedded_image(image) or ("", b""))[1]
        question, answer = required_text(record, "question").strip().lower(), answer_text(record).lower()
    except Malformed:
        return None
    data = image_source.encode(errors="surrogatepass") if isinstance(image_source, str) else image_source
    digest = hashlib.sha256(question.encode(errors="surrogatepass") + b"\x00" + hashlib.sha256(data).digest())
    return digest.digest()[:16], hashlib.sha256(answer.encode(errors="surrogatepass")).digest()[:16]


def _record_question(seen: sqlite3.Connection, record: dict[str, Any], number: int) -> None:
    if (key := _key(record)) is not None:
        seen.execute(
            "INSERT INTO seen VALUES (?, ?, ?, 0)"
            " ON CONFLICT DO UPDATE SET differs = differs OR answer != excluded.answer",
            (*key, number),
        )


def _duplicate_refusal(seen: sqlite3.Connection, record: dict[str, Any], number: int, where: str) -> Refusal | None:
    key = _key(record)
    if key is None:
        return None
    [first, differs] = seen.execute("SELECT number, differs FROM seen WHERE what = ?", key[:1]).fetchone()
    if differs:
        reason = "The same question about the same image has different answers: all of them are left out."
        return Refusal(where, reason, {LEFT_OUT: "different answers"})
    if first != number:
        reason = f"The same question about the same image, with the same answer, is record {first + 1}: kept once."
        return Refusal(where, reason, {LEFT_OUT: "repeated"})
    return None
