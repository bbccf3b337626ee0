"""Formats of questions about images by declaration: row content, options, answers and splits."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
    SNIFF_LIMIT,
    Layout,
    Malformed,
    RecordImage,
    Refusal,
    Row,
    WrongFormat,
    check_storable,
    checked_id,
    first_byte,
    json_lines,
    language_fields,
    one_line,
)
from generation.sources.importers.bundles import Bundle, DataFile, open_bundle
from generation.sources.importers.json_files import array_items
from generation.sources.importers.tables import is_parquet, parquet_columns, parquet_records

KIND = "vqa"
SPLITS = ("train", "validation", "test", "dev")
MAX_IMAGES = 20
_SPLIT = re.compile(r"(?:^|[^a-z])(train|validation|valid|val|test|dev)(?![a-z])|(train|test)set", re.IGNORECASE)
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")
_OPTION_LETTER = re.compile(r"\s*+\(?([A-Za-z])\s*+[.):]\s+")


def split_of(name: str) -> str:
    """The split that a path names last ('data/test-00000.parquet': test); '' if it names none."""
    splits = [(split or set_split).lower() for split, set_split in _SPLIT.findall(name)]
    return {"valid": "validation", "val": "validation"}.get(splits[-1], splits[-1]) if splits else ""


def shard_prefix(name: str) -> str:
    """Prefix of a shard's row ids: '2-' for 'test-00002-of-00005.parquet', '' if not sharded.

    Row numbers restart in each shard, so without it two rows would have the same id.
    """
    match = _SHARD.search(name)
    return f"{int(match[1])}-" if match and int(match[2]) > 1 else ""


def answer_text(record: Mapping[str, Any], key: str = "answer") -> str:
    """The answer under `key`: a text, or a number as a text. Raises Malformed."""
    value = record.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise Malformed(f"'{key}' is not a text." if key in record else f"'{key}' is missing.")
    if not value.strip():
        raise Malformed(f"'{key}' is blank.")
    return value.strip()


def question_type(answer: str, options: Sequence[object] = ()) -> str:
    """The type of a question in ClinHallu's terms."""
    if options:
        return "multiple_choice"
    return "yes_no" if answer.strip().casefold().rstrip(".") in ("yes", "no") else "open_ended"


def parse_options(value: Any) -> list[list[str]]:
    """Parse options into [letter, text] pairs. Raises Malformed.

    They are a list of texts, with or without 'A. ' in front, or an object keyed by letter.
    """
    if value is None:
        return []
    if isinstance(value, dict):
        pairs = [[str(letter).strip(), text] for letter, text in value.items()]
    elif isinstance(value, list):
        pairs = [[chr(ord("A") + place), text] for place, text in enumerate(value)]
    else:
        raise Malformed("'options' is neither a list nor an object.")
    if len(pairs) > 26 or not all(re.fullmatch("[A-Z]", letter) and isinstance(text, str) for letter, text in pairs):
        raise Malformed("'options' are not texts with the letters A to Z.")
    # Strip letters only if every option has its own: 'E. coli' is an option, too.
    marks = [_OPTION_LETTER.match(text) for _letter, text in pairs]
    if pairs and all(mark and mark[1].upper() == letter for mark, (letter, _text) in zip(marks, pairs, strict=True)):
        pairs = [[letter, text[mark.end() :]] for mark, (letter, text) in zip(marks, pairs, strict=True) if mark]
    if any(not text.strip() for _, text in pairs):
        raise Malformed("An option is blank.")
    return [[letter, text.strip()] for letter, text in pairs]


def correct_option(letter: Any, options: list[list[str]]) -> tuple[str, str]:
    """Letter and text of the correct option. Raises Malformed."""
    wanted = str(letter).strip().upper() if isinstance(letter, str) else ""
    for option, text in options:
        if option == wanted:
            return option, text
    raise Malformed("The letter of the right answer is not one of its options.")


def row(
    where: str,
    *,
    dataset: str,
    external_id: str,
    question: str,
    answer: str,
    pictures: Sequence[RecordImage],
    split: str,
    options: Sequence[Sequence[str]] = (),
    letter: str = "",
    type_of_question: str = "",
    body_system: str = "",
    private: Mapping[str, Any] | None = None,
    source: str = "",
    **extra_content: Any,
) -> Row:
    """Build a row whose content is a question about images. Raises Malformed.

    content: {kind: 'vqa', question, options: [[letter, text]], answer, letter, question_type:
    'yes_no' | 'open_ended' | 'multiple_choice', dataset, split, images: [SHA-256], body_system},
    and `extra_content`.
    """
    if not question.strip():
        raise Malformed("'question' is blank.")
    if not pictures:
        raise Malformed("It has no image.")
    if len(pictures) > MAX_IMAGES:
        raise Malformed(f"It has more than {MAX_IMAGES} images.")
    content: dict[str, Any] = {
        "kind": KIND,
        "question": question.strip(),
        "options": [list(option) for option in options],
        "answer": answer,
        "letter": letter,
        "question_type": type_of_question or question_type(answer, options),
        "dataset": dataset,
        "split": split,
        "images": [],  # filled once the images are stored
        "body_system": " ".join(body_system.split()),
        **extra_content,  # may override `kind`
    }
    hidden = dict(private or {})
    visible_text = "\n".join([question, *(text for _, text in options)])
    # All of these data sets are in English, and the detector mistakes some of their short questions
    # for another language.
    language = language_fields(visible_text)
    if visible_text.isascii() or not language["language"]:
        language = {"language": "en", "language_confidence": None}
    source = source or dataset
    same_image = f"{dataset} {split} {pictures[0].identity}" if len(pictures) == 1 and pictures[0].identity else ""
    check_storable(content)
    check_storable(hidden)
    return Row(
        external_id=checked_id(external_id),
        title=one_line(question),
        **language,
        content=content,
        private=hidden,
        where=where,
        facets={"question type": content["question_type"], "split": split or "none"},
        images=tuple(pictures),
        # So that a recipe finds the other questions about the same image.
        match=same_image,
        references={source: (same_image,)} if same_image else {},
    )


def embedded_image(value: Any) -> tuple[str, bytes] | None:
    """Name and bytes of an image in a Parquet cell, `{bytes, path}`; None for an empty cell.

    Raises Malformed.
    """
    if value is None:
        return None
    data = value.get("bytes") if isinstance(value, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("base64"), str):
        raise Malformed("A cell that should hold an image does not.")
    name = value.get("path")
    try:
        return (name if isinstance(name, str) and name.isprintable() else ""), base64.b64decode(data["base64"])
    except (ValueError, binascii.Error):
        raise Malformed("A cell that should hold an image does not.") from None


def records(file: DataFile, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    """(position, record) for each record of a JSON, JSON Lines or Parquet file. Raises WrongFormat.

    Only the named columns are read from Parquet.
    """
    for where, value in _raw_records(file, columns):
        if not isinstance(value, Malformed | dict):
            value = Malformed("The record is not a JSON object.")
        yield f"{file.name} {where}", value


def _raw_records(file: DataFile, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    if is_parquet(file.path):
        yield from parquet_records(file.path, lambda name: name in columns)
    elif first_byte(file.path) == b"[":
        yield from array_items(file.path)
    else:
        for number, value in json_lines(file.path):
            yield f"line {number}", value


def check_layout(layout: Layout, label: str, *known: str) -> None:
    """Raise WrongFormat unless a layout is one of the known ones."""
    if layout.name not in known:
        raise WrongFormat(f"There is no layout {layout.name!r} of {label}.")


def missing_keys(record: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The missing keys, in words; '' if none is missing."""
    return ", ".join(f"'{key}'" for key in keys if key not in record)


def matching_files(bundle: Bundle, *keys: Sequence[str]) -> list[DataFile]:
    """The data files whose first records have all the keys of one of these lists.

    Raises WrongFormat if there is none.
    """
    problem = f"The {bundle.kind} contains no file of questions."
    files = []
    for file in bundle.data:
        place = "" if bundle.kind == "file" else f"{file.name} in the {bundle.kind}: "
        try:
            problems = [_mismatch(file, key_list) for key_list in keys]
        except WrongFormat as error:
            problem = f"{place}{error}"
            continue
        if all(problems):
            problem = f"{place}{problems[0]}"
        else:
            files.append(file)
    if not files:
        raise WrongFormat(problem)
    return files


def _mismatch(file: DataFile, keys: Sequence[str]) -> str:
    """Why a file has no records with these keys; '' if one of its first records has them."""
    if is_parquet(file.path):
        missing = missing_keys(dict.fromkeys(parquet_columns(file.path)), keys)
        return f"It has no column {missing}." if missing else ""
    what = "array" if first_byte(file.path) == b"[" else "file"
    problem = f"The {what} contains no record."
    for _where, record in islice(records(file, keys), SNIFF_LIMIT):
        if isinstance(record, Malformed):
            problem = f"The {what} cannot be used: {record}"
        elif missing := missing_keys(record, keys):
            problem = f"Its records lack {missing}."
        else:
            return ""
    return problem


def is_data_file(name: str) -> bool:
    """Whether a file may hold rows, by its name: JSON, JSON Lines or Parquet."""
    return name.lower().endswith((".json", ".jsonl", ".parquet"))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is: its place in words, its number in its file, and what is beside it."""

    where: str
    number: int
    file: DataFile
    bundle: Bundle

    @property
    def split(self) -> str:
        return split_of(self.file.name)


@dataclass(frozen=True, slots=True)
class PictureFormat:
    """A format whose records are questions about images, which are beside them or in them.

    Attributes:
        read: makes the row of a record. Raises Malformed.
        keys: a record must have all of one of these.
        columns: read from Parquet; by default those keys.
        layouts: the name for files of JSON and, if they may be that too, of Parquet.
        is_data: whether a file may hold records, by its name.
    """

    label: str
    read: Callable[[dict[str, Any], Place], Row]
    keys: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ("jsonl",)
    is_data: Callable[[str], bool] = is_data_file

    def sniff(self, path: Path) -> Layout:
        """Raises WrongFormat."""
        with open_bundle(path, self.is_data) as bundle:
            [first, *_more] = matching_files(bundle, *self.keys)
            return Layout(self.layouts[-1 if is_parquet(first.path) else 0])

    def rows(self, path: Path, layout: Layout) -> Iterator[Row | Refusal]:
        """The row of each record, or a refusal. Raises WrongFormat."""
        check_layout(layout, self.label, *self.layouts)
        return self._rows(path, layout.file)

    def _rows(self, path: Path, original_name: str) -> Iterator[Row | Refusal]:
        with open_bundle(path, self.is_data, original_name) as bundle:
            for file in matching_files(bundle, *self.keys):
                for number, (where, record) in enumerate(records(file, self.columns or self.keys[0])):
                    try:
                        if isinstance(record, Malformed):
                            raise record
                        yield self.read(record, Place(where, number, file, bundle))
                    except Malformed as error:
                        yield Refusal(where, str(error))
