#!/usr/bin/env bash
# Expected: Inspect's scorer `exact` is right only for an answer that is the target.
# Happens: before it compares, articles and punctuation go: "Hepatitis A" is right for "hepatitis",
#   "vitamin A" for "vitamin", "-2.5" for "2.5" and "5%" for "5"; `f1` gives each of them 1.0.
# Version: inspect_ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install inspect-ai==0.3.285
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio

from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Target, exact, f1
from inspect_ai.solver import TaskState


async def score(scorer, answer, target):
    output = ModelOutput.from_content("mockllm/model", answer)
    state = TaskState(
        model=ModelName("mockllm/model"), sample_id=1, epoch=1, input="?", messages=[], output=output
    )
    return (await scorer(state, Target([target]))).value


async def main():
    for answer, target in [("Hepatitis A", "hepatitis"), ("vitamin A", "vitamin"), ("-2.5", "2.5"), ("5%", "5")]:
        values = await score(exact(), answer, target), await score(f1(), answer, target)
        print(f"{answer!r} for {target!r}: exact {values[0]}, f1 {values[1]}")
        assert values == ("C", 1.0), (answer, target, values)


asyncio.run(main())
PYTHON
