"""PathVQA: questions and answers about pathology images, made from the captions of textbooks.

Parquet with the images inside, or the original layout: `qas/<split>/<split>_qa.pkl` beside
`images/<split>/`. The pickles are read as plain values and nothing else.

Duplicates are handled as in the data that ClinHallu's authors publish: if a question (ignoring
case) is repeated about the same image, it is imported once if the answers are the same, and not at
all if they differ.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
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
    gettext_noop,
)
from generation.sources.importers.bundles import Bundle, DataFile, open_bundle
from generation.sources.importers.pickles import load_plain
from generation.sources.importers.records import FileRecord, Text
from generation.sources.importers.tabular import PARQUET, PICKLED
from generation.sources.importers.visual_questions import Answer, Image, PictureFormat, Place, is_data_file

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


class _Question(FileRecord):
    image: Image
    question: Text
    answer: Answer


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: as in `visual_questions.row`.

    Questions repeated in a split, also in another file of it, are refused, with the row that they
    repeat.
    """
    with open_bundle(path, _is_data_file, layout.file) as bundle:
        seen: dict[bytes, tuple[int, set[bytes]]] = {}  # question -> its first record, and its answers
        for order, place, _where, record in _records(bundle):
            if key := _key(record, place):
                seen.setdefault(key[0], (order, set()))[1].add(key[1])
        for order, place, where, record in _records(bundle):
            key = _key(record, place)
            first, answers = order, set[bytes]()
            if key:
                first, answers = seen[key[0]]
            if len(answers) > 1:
                reason = "The same question about the same image has different answers: all of them are left out."
                yield Refusal(where, reason, {LEFT_OUT: "different answers"})
            elif first != order:
                reason = (
                    f"The same question about the same image, with the same answer, is record {first + 1}: kept once."
                )
                yield Refusal(where, reason, {LEFT_OUT: "repeated"})
            else:
                yield FORMAT.read(record, where, place)


def _records(bundle: Bundle) -> Iterator[tuple[int, Place, str, Any]]:
    """(number in its split, place, position, record) of every record."""
    numbers: Counter[str] = Counter()
    for place, where, record in FORMAT.records(bundle):
        yield numbers[place.split], place, where, record
        numbers[place.split] += 1


def _key(given: dict[str, Any] | Malformed, place: Place) -> tuple[bytes, bytes] | None:
    """Digests of a question of a split and an image, and of its answer; None for a bad record."""
    try:
        if isinstance(given, Malformed):
            raise given
        record = _Question.read(given)
    except Malformed:
        return None
    data = b""
    if isinstance(record.image, str):
        data = record.image.encode(errors="surrogatepass")
    elif record.image:
        _name, data = record.image
    asked = f"{place.split}\x00{record.question.lower()}\x00".encode() + hashlib.sha256(data).digest()
    return hashlib.sha256(asked).digest()[:16], hashlib.sha256(record.answer.lower().encode()).digest()[:16]


def _is_data_file(file_name: str) -> bool:
    return is_data_file(file_name) or file_name.lower().endswith(".pkl")


def _row(record: _Question, place: Place) -> Row:
    split, folder = place.split, place.file.folder
    root = folder
    if place.file.name.lower().endswith(".pkl"):
        root = str(Path(folder).parent.parent)
    if root == ".":
        root = ""
    else:
        root = f"{root}/"
    return visual_questions.row(
        dataset=name,
        external_id=place.row_id,
        question=record.question,
        answer=record.answer,
        pictures=[place.picture(record.image, f"{root}images/{split}", f"{root}images", folder)],
        split=split,
    )


class _PathVQAFormat(PictureFormat[_Question]):
    def files(self, bundle: Bundle) -> list[tuple[DataFile, str]]:
        # Beside the pickles of questions there are vocabularies, some of other things than texts.
        pickled = [file for file in bundle.data if file.name.lower().endswith(".pkl")]
        pickled = [file for file in pickled if file.name.lower().endswith("_qa.pkl")] or pickled
        for file in pickled:
            load_plain(file.path)  # a damaged one is refused, not left out
        return super().files(replace(bundle, data=pickled or bundle.data))


FORMAT = _PathVQAFormat(label, _Question, _row, (PARQUET, PICKLED), _is_data_file)
sniff = FORMAT.sniff
