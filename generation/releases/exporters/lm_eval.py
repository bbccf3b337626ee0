"""A task of lm-eval: `mhb.yaml`, `utils.py` and `lm_eval.jsonl`.

Run it with `lm_eval --include_path FOLDER --tasks mhb`.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters import programs
from generation.releases.exporters.base import (
    canonical,
    canonical_object,
    check_columns,
    conversation,
    open_text,
    replace_files,
)

name = "lm-eval"
label = "lm-eval"
lines = "lm_eval.jsonl"
asks = True
judges = weighs = True

TASK, POINTS_TASK = "lm_eval_task.yaml", "lm_eval_points_task.yaml"
_ABOUT = ("sample_id", "task", "version", "language", "arm", "canary")


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the three files; see `Exporter.write`."""
    data, has_points = folder / lines, False
    with replace_files(data) as [temporary], open_text(temporary) as file:
        for sample in check_columns(samples):
            has_points = has_points or bool(sample.get("points"))
            file.write(_line(sample))
    paths = [data]
    for target, source in (("mhb.yaml", POINTS_TASK if has_points else TASK), ("utils.py", "lm_eval_utils.py")):
        paths.append(folder / target)
        shutil.copyfile(Path(programs.__file__).parent / source, paths[-1])
    return paths


def _line(sample: Mapping[str, Any]) -> str:
    """The sample's line.

    All objects in a list have the same keys, because lm-eval stores them as a table.
    """
    points = sample.get("points")
    rubrics = [
        {
            "key": rubric["key"],
            "criterion": rubric["criterion"],
            "polarity": rubric.get("polarity", ""),
            "points": "" if points is None else str(points[position]),
        }
        for position, rubric in enumerate(sample["rubrics"])
    ]
    row = {
        **{column: canonical(sample.get(column, "")) for column in _ABOUT},
        "messages": conversation(sample["messages"]),
        "judging": conversation(sample.get("judging", ())),
        "rubrics": canonical(rubrics),
    }
    return canonical_object(row) + "\n"
