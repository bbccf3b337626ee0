"""The demo's images: drawings of no real person, with questions in the layout of VQA-RAD."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABELS = "labels.jsonl"
_SIZE = (320, 320)
_TISSUE, _DARK, _BRIGHT, _BACK = 150, 60, 235, 15


@dataclass(frozen=True, slots=True)
class PictureDrawing:
    """A schematic image: two fields in a body, and perhaps a bright or dark spot in one of them."""

    name: str
    organ: str
    shape: str  # of the body: 'round' or 'wide'
    spot: str = ""  # 'bright', 'dark' or ''
    side: str = ""  # 'left' or 'right' side of the image


DRAWINGS = (
    PictureDrawing("drawn-1.png", "CHEST", "wide", "bright", "left"),
    PictureDrawing("drawn-2.png", "CHEST", "wide", "dark", "right"),
    PictureDrawing("drawn-3.png", "CHEST", "wide"),
    PictureDrawing("drawn-4.png", "HEAD", "round", "bright", "right"),
    PictureDrawing("drawn-5.png", "HEAD", "round", "dark", "left"),
    PictureDrawing("drawn-6.png", "ABD", "wide", "bright", "right"),
    PictureDrawing("drawn-7.png", "ABD", "round"),
    PictureDrawing("drawn-8.png", "HEAD", "round", "dark", "right"),
)


def draw(drawing: PictureDrawing) -> bytes:
    """Draw the image as a PNG file."""
    from PIL import Image, ImageDraw

    image = Image.new("L", _SIZE, _BACK)
    pen = ImageDraw.Draw(image)
    pen.ellipse((60, 30, 260, 290) if drawing.shape == "round" else (20, 60, 300, 270), fill=_TISSUE)
    fields = {"left": (70, 110, 145, 220), "right": (175, 110, 250, 220)}
    for place in fields.values():
        pen.ellipse(place, fill=105)
    if drawing.spot:
        left, top, right, bottom = fields[drawing.side]
        shift = sum(place * ord(character) for place, character in enumerate(drawing.name, 1)) % 40 - 20
        x, y = (left + right) // 2, (top + bottom) // 2 + shift
        pen.ellipse((x - 18, y - 18, x + 18, y + 18), fill=_BRIGHT if drawing.spot == "bright" else _DARK)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def questions() -> Iterator[tuple[PictureDrawing, str, str]]:
    """(image, question, true answer), written by hand."""
    for drawing in DRAWINGS:
        yield drawing, "Is there a bright spot in the image?", "yes" if drawing.spot == "bright" else "no"
        if drawing.spot:
            yield drawing, f"On which side of the image is the {drawing.spot} spot?", drawing.side
        yield drawing, "What is the outline of the body?", "round" if drawing.shape == "round" else "wide"


def write_data_set(folder: Path) -> Path:
    """Create the folder with the data set and the labels for simulated models; returns it."""
    from generation.images.checks import clean

    (folder / "images").mkdir(parents=True, exist_ok=True)
    digests = {}
    for drawing in DRAWINGS:
        data = draw(drawing)
        (folder / "images" / drawing.name).write_bytes(data)
        digests[drawing.name] = clean(data).sha256
    records: dict[str, list[dict[str, Any]]] = {"test": [], "train": []}
    labels = []
    for number, (drawing, question, answer) in enumerate(questions(), 1):
        # The last two images are for training: a release of the test set never has their questions.
        split = "test"
        if drawing in DRAWINGS[-2:]:
            split = "train"
        records[split].append(
            {
                "qid": number,
                "image_name": drawing.name,
                "image_organ": drawing.organ,
                "answer": answer,
                "answer_type": "CLOSED" if answer in ("yes", "no") else "OPEN",
                "question_type": "PRES",
                "question": question,
                "phrase_type": "freeform",
            }
        )
        labels.append({"question": question, "images": [digests[drawing.name]], "answer": answer})
    for split, rows in records.items():
        (folder / f"{split}set.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (folder / LABELS).write_text("".join(json.dumps(label) + "\n" for label in labels), encoding="utf-8")
    return folder
