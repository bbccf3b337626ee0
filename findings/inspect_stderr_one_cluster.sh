#!/usr/bin/env bash
# Expected: the standard error of one sample, or of samples that are all of one cluster, is unknown: NaN, or none.
# Happens: it is 0.0, as if the rate were certain: half of six samples are right, and an interval made of it has no width.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
cat > run.py <<'PY'
import tiktoken

class Words:
    """So that nothing is downloaded to count tokens."""
    def encode(self, text, **options):
        return text.split()

tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import accuracy, includes, stderr

def measured(targets, error):
    data = [Sample(input="May I?", target=target, metadata={"report": "r1"}) for target in targets]
    task = Task(dataset=data, scorer=includes(), metrics=[accuracy(), error])
    [log] = eval(task, model="mockllm/model", log_dir="logs", display="none")
    return {name: round(metric.value, 3) for name, metric in log.results.scores[0].metrics.items()}

print("six", measured(["mock", "no"] * 3, stderr()))
print("six of one report", measured(["mock", "no"] * 3, stderr(cluster="report")))
print("one", measured(["mock"], stderr()))
PY
HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
six {'accuracy': 0.5, 'stderr': 0.224}
six of one report {'accuracy': 0.5, 'stderr': 0.0}
one {'accuracy': 1.0, 'stderr': 0.0}
TEXT
