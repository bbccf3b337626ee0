"""Test cases of promptfoo: `promptfoo.jsonl`, and `promptfooconfig.yaml` that reads them.

promptfoo decides on each criterion by its own prompt (`llm-rubric`), so its scores are not those of
MHB's judge.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import About, LinesExporter, canonical, identity, weighed_rubrics

CONFIG = """\
# promptfoo eval --providers MODEL --grader JUDGE
description: {description}
prompts:
  - "{{{{messages}}}}"
tests: file://promptfoo.jsonl
"""
WANTED, UNWANTED = "criteria met", "criteria to avoid, not met"
_TEMPLATE = re.compile(r"\{(?=[{%#])")  # promptfoo would fill these in
_REFERENCE = re.compile("^[fp](?=ile://|ackage:)")  # it would read or run the file that is named


class PromptfooExporter(LinesExporter):
    """One test case on each line, with an assertion for each criterion."""

    name = "promptfoo"
    label = "promptfoo"
    lines = "promptfoo.jsonl"
    asks = weighs = True

    def line(self, sample: Mapping[str, Any]) -> str:
        """The sample as a test case. Points become weights; negative ones negate the assertion."""
        arm = sample.get("arm") or "trap"
        assertions = []
        for rubric, weight in weighed_rubrics(sample):
            kind, wanted = "llm-rubric", WANTED
            if weight < 0:
                kind, wanted = "not-llm-rubric", UNWANTED
            criterion = _TEMPLATE.sub('{{ "{" }}', rubric["criterion"])
            assertion = {
                "type": kind,
                "value": _REFERENCE.sub(r'{{ "\g<0>" }}', criterion),
                # A grader that finds nothing met must not raise the share of criteria met.
                "metric": f"{arm}: {wanted}",
                "weight": abs(weight),
            }
            assertions.append(assertion)
        case = {
            "description": sample["sample_id"],
            "vars": {"messages": _TEMPLATE.sub(r"\\u007b", canonical(sample["messages"]))},
            "assert": assertions,
            "metadata": identity(sample),
        }
        return canonical(case)

    def companion_files(self, folder: Path, about: About) -> list[Path]:
        """Write the configuration."""
        path = folder / "promptfooconfig.yaml"
        description = canonical(f"{about['name']} {about['version']}")
        path.write_text(CONFIG.format(description=description), encoding="utf-8", newline="\n")
        return [path]
