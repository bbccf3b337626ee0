"""A task of lm-eval: `mhb.yaml`, `utils.py` and `lm_eval.jsonl`, for `lm_eval --include_path FOLDER --tasks mhb`."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters import programs
from generation.releases.exporters.base import canonical, checked, replacing

name = "lm-eval"
label = "lm-eval"
lines = "lm_eval.jsonl"
asks = True
judges = weighs = True

TASK, POINTS_TASK = "lm_eval_task.yaml", "lm_eval_points_task.yaml"
_ABOUT = ("task", "version", "language", "arm", "canary")


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the three; see `Exporter.write`."""
    data, has_points = folder / lines, False
    with replacing(data) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        for sample in checked(samples):
            row = _row(sample)
            has_points = has_points or any(rubric["points"] for rubric in row["rubrics"])
            file.write(canonical(row) + "\n")
    paths = [data]
    for target, source in (("mhb.yaml", POINTS_TASK if has_points else TASK), ("utils.py", "lm_eval_utils.py")):
        paths.append(folder / target)
        shutil.copyfile(Path(programs.__file__).parent / source, paths[-1])
    return paths


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of objects with the same keys throughout: the tool holds them as a table."""
    points = sample.get("points")
    rubrics = [
        {
            "key": rubric["key"],
            "criterion": rubric["criterion"],
            "polarity": rubric.get("polarity", ""),
            "points": "" if points is None else str(points[place]),
        }
        for place, rubric in enumerate(sample["rubrics"])
    ]
    about = {column: sample.get(column, "") for column in _ABOUT}
    texts = {"messages": sample["messages"], "judging": sample.get("judging") or []}
    return {**about, "sample_id": sample["sample_id"], **texts, "rubrics": rubrics}
