"""PathVQA: questions and answers about pathology images, made from the captions of textbooks.

Parquet with the images inside, or the original layout: `qas/<split>/<split>_qa.pkl` beside
`images/<split>/`. The pickles are read as plain values and nothing else.

Duplicates are handled as in the data that ClinHallu's authors publish: if a question (ignoring
case) is repeated about the same image, it is imported once if the answers are the same, and not at
all if they differ.
"""

import hashlib
from collections.abc import Iterator
from functools import partial
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
    Refusal,
    Row,
    WrongFormat,
    container_of,
    gettext_noop,
)
from generation.sources.importers.bundles import Bundle, DataFile, open_bundle
from generation.sources.importers.pickles import load_plain
from generation.sources.importers.records import FileRecord, Text
from generation.sources.importers.tabular import read_or_refused
from generation.sources.importers.visual_questions import (
    Answer,
    Image,
    Place,
    is_data_file,
    matching_files,
    records_of,
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

LEFT_OUT = "left out"
_PICKLE = "pickle"


class _Question(FileRecord):
    image: Image
    question: Text
    answer: Answer


def sniff(path: Path) -> Layout:
    """Raises WrongFormat."""
    with open_bundle(path, _is_data_file) as bundle:
        [(_first, kind), *_more] = _files(bundle)
        return Layout(_PICKLE if kind == _PICKLE else "parquet")


def _is_data_file(file_name: str) -> bool:
    return is_data_file(file_name) or file_name.lower().endswith(".pkl")


def _is_pickle(file: DataFile) -> bool:
    # An upload is stored under a generated name.
    return file.path.suffix.lower() == ".pkl" or container_of(file.path) == PICKLE


def _files(bundle: Bundle) -> list[tuple[DataFile, str]]:
    pickled = [file for file in bundle.data if _is_pickle(file)]
    if not pickled:
        return matching_files(bundle, label, _Question)
    # Beside the questions there are vocabularies and labels, some of which are not plain values.
    question_files = [file for file in pickled if file.name.lower().endswith("_qa.pkl")] or pickled
    files = [(file, _PICKLE) for file in question_files if _has_questions(load_plain(file.path))]
    if not files:
        raise WrongFormat("None of its pickles is a list of questions with 'image', 'question' and 'answer'.")
    return files


def _has_questions(value: Any) -> bool:
    return isinstance(value, list) and any(
        isinstance(question, dict) and not _Question.missing(question) for question in value[:50]
    )


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: as in `visual_questions.row`.

    Duplicates are refused, with the row that they repeat.
    """
    with open_bundle(path, _is_data_file, layout.file) as bundle:
        by_split = sorted(_files(bundle), key=lambda found: (split_of(found[0].name), found[0].name))
        for _split, files in groupby(by_split, key=lambda found: split_of(found[0].name)):
            yield from _rows_of_split(list(files), bundle)


def _rows_of_split(files: list[tuple[DataFile, str]], bundle: Bundle) -> Iterator[Row | Refusal]:
    """The rows of all files of a split: a question may be repeated in another file."""
    seen: dict[bytes, tuple[int, set[bytes]]] = {}  # question -> its first record, and its answers
    for order, (_place, _where, record) in enumerate(_records(files, bundle)):
        if key := _key(record):
            seen.setdefault(key[0], (order, set()))[1].add(key[1])
    for order, (place, where, record) in enumerate(_records(files, bundle)):
        first, answers = seen[key[0]] if (key := _key(record)) else (order, set())
        if len(answers) > 1:
            reason = "The same question about the same image has different answers: all of them are left out."
            yield Refusal(where, reason, {LEFT_OUT: "different answers"})
        elif first != order:
            reason = f"The same question about the same image, with the same answer, is record {first + 1}: kept once."
            yield Refusal(where, reason, {LEFT_OUT: "repeated"})
        else:
            yield read_or_refused(record, where, partial(_row, place=place))


def _key(given: dict[str, Any] | Malformed) -> tuple[bytes, bytes] | None:
    """Digests of (question and image) and answer; None for a record that is refused anyway."""
    try:
        record = _Question.read(given) if isinstance(given, dict) else None
    except Malformed:
        return None
    if record is None:
        return None
    image = record.image if isinstance(record.image, str) else (record.image or ("", b""))[1]
    data = image.encode(errors="surrogatepass") if isinstance(image, str) else image
    digest = hashlib.sha256(record.question.lower().encode() + b"\x00" + hashlib.sha256(data).digest())
    return digest.digest()[:16], hashlib.sha256(record.answer.lower().encode()).digest()[:16]


def _records(
    files: list[tuple[DataFile, str]], bundle: Bundle
) -> Iterator[tuple[Place, str, dict[str, Any] | Malformed]]:
    """(place, position, record) of every record."""
    for file, kind in files:
        found = _pickled_records(file) if kind == _PICKLE else records_of(file, kind, _Question)
        for number, (where, record) in enumerate(found):
            yield Place(number, file, bundle), where, record


def _pickled_records(file: DataFile) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    for number, record in enumerate(load_plain(file.path), 1):
        error = Malformed("The record is not an object with texts as keys.")
        is_plain = isinstance(record, dict) and all(isinstance(key, str) for key in record)
        yield f"{file.name} record {number}", record if is_plain else error


def _row(given: dict[str, Any], *, place: Place) -> Row:
    record, split, folder = _Question.read(given), place.split, place.file.folder
    root = str(Path(folder).parent.parent) if _is_pickle(place.file) else folder
    root = "" if root == "." else f"{root}/"
    return visual_questions.row(
        dataset=name,
        external_id=place.row_id,
        question=record.question,
        answer=record.answer,
        pictures=[place.picture(record.image, f"{root}images/{split}", f"{root}images", folder)],
        split=split,
    )
