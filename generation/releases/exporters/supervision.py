"""Reasoning as supervision: chats for fine-tuning, one a line, with images by path, as LLaMA-Factory and others read them.

`train.jsonl` and `validation.jsonl`, by the split of the source that a sample came from. A sample of a test split, or of none
that is known, is never written: a model must not be trained on what it is measured by.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import canonical, checked, replacing

name = "supervision"
label = "Supervision (chat JSON Lines for fine-tuning)"
supervises = True
SPLITS = ("train", "validation")


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write both files; see `Exporter.write`."""
    paths = [folder / f"{split}.jsonl" for split in SPLITS]
    with (
        replacing(*paths) as [train_path, validation_path],
        train_path.open("w", encoding="utf-8", newline="\n") as train,
        validation_path.open("w", encoding="utf-8", newline="\n") as validation,
    ):
        files = dict(zip(SPLITS, (train, validation), strict=True))
        for sample in checked(samples):
            if (file := files.get(sample["training"]["split"])) is not None:
                file.write(canonical(_row(sample)) + "\n")
    return paths


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    images = list(sample["content"].get("image_files", ()))
    [question, *rest] = sample["training"]["messages"]
    # One mark for each image, where the text begins: without them, trainers refuse the row.
    question = {**question, "content": "<image>" * len(images) + question["content"]}
    return {"id": sample["sample_id"], "messages": [question, *rest], "images": images}
