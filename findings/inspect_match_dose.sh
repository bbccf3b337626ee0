#!/usr/bin/env bash
# Expected: `match()` of "The dose is 15 mg" with the target "5 mg" is incorrect.
# Happens: it is correct: the target is looked for at the end of the answer as letters, not as words. So is "atypical" for
#   "typical". Only what stands before the target's end tells: 50 mg is incorrect.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
cat > run.py <<'PY'
import asyncio

from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Target, match
from inspect_ai.solver import TaskState

def grade(target, answer, **options):
    output = ModelOutput.from_content("own", answer)
    state = TaskState(model="own", sample_id=1, epoch=1, input="?", messages=[], output=output)
    score = asyncio.run(match(**options)(state, Target(target)))
    print(f"{target} <- {answer} {score.value}")

grade("5 mg", "The dose is 15 mg")
grade("typical", "The finding is atypical.")
grade("5 mg", "The dose is 50 mg")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
5 mg <- The dose is 15 mg C
typical <- The finding is atypical. C
5 mg <- The dose is 50 mg I
TEXT
