"""Reasoning as supervision: chats for fine-tuning, one on each line, with images by path.

LLaMA-Factory and others read them.

`train.jsonl` and `validation.jsonl`, by the split of the source that a sample came from. Samples of
a test split, or of no known split, are never written: a model must not be trained on what it is
measured by.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import Exporter, Samples, canonical, open_text

SPLITS = ("train", "validation")


class SupervisionExporter(Exporter):
    """Reasoning for fine-tuning, in two parts."""

    name = "supervision"
    label = "Supervision (chat JSON Lines for fine-tuning)"
    files = tuple(f"{split}.jsonl" for split in SPLITS)
    supervises = True

    def write_files(self, samples: Samples, paths: list[Path]) -> None:
        with open_text(paths[0]) as train, open_text(paths[1]) as validation:
            files = dict(zip(SPLITS, (train, validation), strict=True))
            for sample in samples:
                if (file := files.get(sample["training"]["split"])) is not None:
                    file.write(canonical(_row(sample)) + "\n")


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    images = list(sample["content"].get("image_files", ()))
    [question, *rest] = sample["training"]["messages"]
    # One placeholder for each image at the beginning of the text, or trainers reject the row.
    question = {**question, "content": "<image>" * len(images) + question["content"]}
    return {"id": sample["sample_id"], "messages": [question, *rest], "images": images}
