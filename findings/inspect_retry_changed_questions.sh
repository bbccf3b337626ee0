#!/usr/bin/env bash
# Expected: `eval_retry` of a task whose questions were changed since asks all of them, or refuses.
# Happens: a sample that had ended is kept by its id, whatever it asks now. The log of the retry has the old questions beside
#   the new one, status "success", and one accuracy over both.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
cat > own.py <<'PY'
import os

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, solver

@solver
def stop():
    async def solve(state, generate):
        if state.sample_id == 3 and os.environ["DOSE"] == "5":
            raise ValueError("broken")
        return state
    return solve

@task
def own():
    questions = [Sample(id=n, input=f"{n}. May I take {os.environ['DOSE']} mg?", target="mock") for n in (1, 2, 3)]
    return Task(dataset=questions, solver=[stop(), generate()], scorer=includes())
PY
cat > run.py <<'PY'
import os

import tiktoken

class Words:
    """So that nothing is downloaded to count tokens."""
    def encode(self, text, **options):
        return text.split()

tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
from inspect_ai import eval, eval_retry

os.environ["DOSE"] = "5"
[first] = eval("own.py", model="mockllm/model", log_dir="logs", display="none", max_samples=1)
os.environ["DOSE"] = "500"
[again] = eval_retry(first, log_dir="logs", display="none")
for log in (first, again):
    print(log.status, [sample.input for sample in log.samples])
print(again.results.total_samples, again.results.scores[0].metrics["accuracy"].value)
PY
HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
error ['1. May I take 5 mg?', '2. May I take 5 mg?', '3. May I take 5 mg?']
success ['1. May I take 5 mg?', '2. May I take 5 mg?', '3. May I take 500 mg?']
3 1.0
TEXT
