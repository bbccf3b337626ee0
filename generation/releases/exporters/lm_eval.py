"""A task of lm-eval: `TASK.yaml`, `utils.py` and `lm_eval.jsonl`.

Run it with `lm_eval --include_path FOLDER --tasks TASK`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generation.releases import programs
from generation.releases.exporters.base import About, canonical, identity
from generation.releases.exporters.judging import TASK, JudgingExporter, task_name

_METRIC = """\
  - metric: {name}
    aggregation: !function utils.{aggregation}
    higher_is_better: {higher}
"""
# Per sample, lm-eval logs the verdicts; its tables show their number.
_COUNTS = (("judged", "judged", True), ("unjudged", "total", False))


class LmEvalExporter(JudgingExporter):
    """One document of lm-eval on each line, and the task that reads them."""

    name = "lm-eval"
    label = "lm-eval"
    lines = "lm_eval.jsonl"
    programs = {"utils.py": "lm_eval_utils.py"}

    def line(self, sample: Mapping[str, Any]) -> str:
        """The sample as a document.

        All objects in a list have the same keys, because lm-eval stores them as a table.
        """
        points = sample.get("points") or [""] * len(sample["rubrics"])
        rubrics = []
        for rubric, weight in zip(sample["rubrics"], points, strict=True):
            rubrics.append(
                {
                    "key": rubric["key"],
                    "criterion": rubric["criterion"],
                    "polarity": rubric.get("polarity", ""),
                    "points": str(weight),
                }
            )
        row = {
            **identity(sample),
            "messages": sample["messages"],
            "judging": sample["judging"],
            "rubrics": rubrics,
        }
        return canonical(row)

    def companion_files(self, folder: Path, about: About) -> list[Path]:
        """Write the task, whose metrics are the benchmark's rates, and the programs."""
        rates = [(rate["name"], "pooled", rate["hit"]) for rate in about["judging"]["rates"]]
        metrics = ""
        for name, aggregation, higher in (*rates, *_COUNTS):
            metrics += _METRIC.format(name=name, aggregation=aggregation, higher=str(higher).lower())
        task = (Path(programs.__file__).parent / "lm_eval_task.yaml").read_text(encoding="utf-8")
        name = task_name(about["judging"])
        text = task.replace(TASK, name).replace("metric_list:\n", f"metric_list:\n{metrics}")
        path = folder / f"{name}.yaml"
        path.write_text(text, encoding="utf-8", newline="\n")
        return [path, *super().companion_files(folder, about)]
