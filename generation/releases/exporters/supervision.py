"""Reasoning as supervision: chats for fine-tuning, one on each line, with images by path.

LLaMA-Factory and others read them.

`train.jsonl` and `validation.jsonl`, by the split of the source that a sample came from. Samples of
a test split, or of no known split, are never written: a model must not be trained on what it is
measured by.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import (
    NOTHING,
    About,
    Exporter,
    Samples,
    canonical,
    check_columns,
    replace_files,
)

SPLITS = ("train", "validation")


class SupervisionExporter(Exporter):
    """Reasoning for fine-tuning, in two parts."""

    name = "supervision"
    label = "Supervision (chat JSON Lines for fine-tuning)"
    supervises = True

    def write(self, samples: Samples, folder: Path, about: About = NOTHING) -> list[Path]:
        """Write both files; see `Exporter.write`."""
        paths = [folder / f"{split}.jsonl" for split in SPLITS]
        with (
            replace_files(*paths) as [train_path, validation_path],
            train_path.open("w", encoding="utf-8", newline="\n") as train,
            validation_path.open("w", encoding="utf-8", newline="\n") as validation,
        ):
            files = dict(zip(SPLITS, (train, validation), strict=True))
            for sample in check_columns(samples):
                if (file := files.get(sample["training"]["split"])) is not None:
                    file.write(canonical(_row(sample)) + "\n")
        return paths


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    images = list(sample["content"].get("image_files", ()))
    [question, *rest] = sample["training"]["messages"]
    # One placeholder for each image at the beginning of the text, or trainers reject the row.
    question = {**question, "content": "<image>" * len(images) + question["content"]}
    return {"id": sample["sample_id"], "messages": [question, *rest], "images": images}
