"""Formats of questions about images by declaration: row content, options, answers and splits."""

import base64
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator

from generation.sources.importers.base import (
    Layout,
    Malformed,
    RecordImage,
    Refusal,
    Row,
    WrongFormat,
    language_fields,
)
from generation.sources.importers.bundles import Bundle, DataFile, inline_picture, open_bundle
from generation.sources.importers.records import FileRecord, Text
from generation.sources.importers.tabular import ARRAY, JSONL, PARQUET, read_or_refused, recognised_kind, records

R = TypeVar("R", bound=FileRecord)
KIND = "vqa"
MAX_IMAGES = 20
_SPLIT = re.compile(r"(?:^|[^a-z])(train|validation|valid|val|test|dev)(?![a-z])|(train|test)set", re.IGNORECASE)
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")


def _answer(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _image(cell: Any) -> str | tuple[str, bytes] | None:
    """The name of an image, or name and bytes of the one in a Parquet cell, `{bytes, path}`.

    None for an empty cell.
    """
    if cell is None or isinstance(cell, str):
        return cell and cell.strip()
    data = None
    if isinstance(cell, dict):
        data = cell.get("bytes")
    try:
        name, content = cell.get("path"), base64.b64decode(data["base64"])  # type: ignore[index]  # checked below
    except (AttributeError, TypeError, KeyError, ValueError):
        raise ValueError("does not hold an image") from None
    if isinstance(name, str) and name.isprintable():
        return name, content
    return "", content


Answer = Annotated[Text, BeforeValidator(_answer)]
Image = Annotated[Any, BeforeValidator(_image)]


def type_of_question(answer: str, options: Collection[str]) -> str:
    """The type of a question in ClinHallu's terms."""
    if options:
        return "multiple_choice"
    if answer.strip().casefold().rstrip(".") in ("yes", "no"):
        return "yes_no"
    return "open_ended"


def correct_option(letter: str, options: Mapping[str, str]) -> tuple[str, str]:
    """Letter and text of the correct option. Raises Malformed."""
    letter = letter.upper()
    if letter not in options:
        raise Malformed("The letter of the right answer is not one of its options.")
    return letter, options[letter]


def row(
    *,
    dataset: str,
    external_id: str,
    question: str,
    answer: str,
    pictures: Sequence[RecordImage],
    split: str,
    options: Mapping[str, str] = MappingProxyType({}),
    question_type: str = "",
    private: Mapping[str, Any] = MappingProxyType({}),
    source: str = "",
    shares: Sequence[tuple[str, str]] = (),
    **more: Any,
) -> Row:
    """Build a row whose content is a question about images. Raises Malformed.

    content: {kind: 'vqa', question, options: [[letter, text]], answer, letter, question_type:
    'yes_no' | 'open_ended' | 'multiple_choice', dataset, split, images: [SHA-256], body_system},
    and `more`.
    """
    if not pictures:
        raise Malformed("It has no image.")
    if len(pictures) > MAX_IMAGES:
        raise Malformed(f"It has more than {MAX_IMAGES} images.")
    content: dict[str, Any] = {
        "kind": KIND,
        "question": question,
        "options": [list(option) for option in options.items()],
        "answer": answer,
        "letter": "",
        "question_type": question_type or type_of_question(answer, options),
        "dataset": dataset,
        "split": split,
        "images": [],  # filled once the images are stored
        "body_system": "",
        **more,  # may override `kind`
    }
    visible_text = "\n".join([question, *options.values()])
    # All of these data sets are in English, and the detector mistakes some of their short questions
    # for another language.
    language = language_fields(visible_text)
    if visible_text.isascii() or not language["language"]:
        language = {"language": "en", "language_confidence": None}
    same_image, references = "", {}
    if len(pictures) == 1 and pictures[0].identity:
        same_image = f"{dataset} {split} {pictures[0].identity}"
        references = {source or dataset: (same_image,)}
    return Row(
        external_id=external_id,
        title=question,
        **language,
        content=content,
        private=dict(private),
        facets={"question type": content["question_type"], "split": split or "none"},
        images=tuple(pictures),
        # So that a recipe finds the other questions about the same image.
        match=same_image,
        references=references,
        shares=shares,
    )


def is_data_file(name: str) -> bool:
    """Whether a file may hold rows, by its name: JSON, JSON Lines or Parquet."""
    return name.lower().endswith((".json", ".jsonl", ".parquet"))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is: its number in its file, and what is beside it."""

    number: int
    file: DataFile
    bundle: Bundle

    @property
    def split(self) -> str:
        """The split that the path names last ('data/test-00000.parquet': test); '' for none."""
        found = _SPLIT.findall(self.file.name)
        if not found:
            return ""
        split, set_split = found[-1]
        last: str = (split or set_split).lower()
        return {"valid": "validation", "val": "validation"}.get(last, last)

    @property
    def row_id(self) -> str:
        """The id of a record that has none: its split, shard and number."""
        shard = _SHARD.search(self.file.name)
        # In each, numbers restart.
        of_shard = ""
        if shard and int(shard[2]) > 1:
            of_shard = f"{int(shard[1])}-"
        return f"{self.split or 'row'}-{of_shard}{self.number}"

    def picture(self, image: Any, *folders: str) -> RecordImage:
        """The image of a column `Image`: inside of it, or of its name in one of these folders."""
        if isinstance(image, str):
            return self.bundle.picture(image, *folders)
        return inline_picture(*(image or ("", None)))


@dataclass(frozen=True, slots=True)
class PictureFormat(Generic[R]):
    """A format whose records are questions about images, which are beside them or in them.

    Attributes:
        row: makes the row of a record. Raises Malformed.
        layouts: those named as their kind of file is; any other kind is the first of them.
        is_data: whether a file may hold records, by its name.
    """

    label: str
    model: type[R]
    row: Callable[[R, Place], Row]
    layouts: tuple[str, ...] = (JSONL,)
    is_data: Callable[[str], bool] = is_data_file

    def sniff(self, path: Path) -> Layout:
        """Raises WrongFormat."""
        with open_bundle(path, self.is_data) as bundle:
            [(_first, kind), *_more] = self.files(bundle)
            if kind not in self.layouts:
                kind = self.layouts[0]
            return Layout(kind)

    def rows(self, path: Path, layout: Layout) -> Iterator[Row | Refusal]:
        """The row of each record, or a refusal. Raises WrongFormat."""
        with open_bundle(path, self.is_data, layout.file) as bundle:
            for place, where, record in self.records(bundle):
                yield self.read(record, where, place)

    def records(self, bundle: Bundle) -> Iterator[tuple[Place, str, dict[str, Any] | Malformed]]:
        """(place, position, record) of every record. Raises WrongFormat."""
        for file, kind in self.files(bundle):
            for number, (where, value) in enumerate(records(file.path, kind, self.model.wants)):
                if isinstance(value, Malformed | dict):
                    record = value
                else:
                    record = Malformed("The record is not a JSON object.")
                yield Place(number, file, bundle), f"{file.name} {where}", record

    def read(self, record: Any, where: str, place: Place) -> Row | Refusal:
        """The row of a record, or a refusal."""
        return read_or_refused(record, where, lambda given: self.row(self.model.read(given), place))

    def files(self, bundle: Bundle) -> list[tuple[DataFile, str]]:
        """The data files that have records of the format, and their kinds. Raises WrongFormat."""
        problem = f"The {bundle.kind} contains no file of questions."
        kinds = list(dict.fromkeys((JSONL, ARRAY, PARQUET, *self.layouts)))  # named in this order
        files = []
        for file in bundle.data:
            try:
                files.append((file, recognised_kind(file.path, self.label, self.model, kinds)))
            except WrongFormat as error:
                if bundle.kind == "file":
                    problem = error.detail
                else:
                    problem = f"{file.name} in the {bundle.kind}: {error.detail}"
        if not files:
            raise WrongFormat(problem)
        return files
