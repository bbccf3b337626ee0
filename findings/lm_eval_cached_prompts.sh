#!/usr/bin/env bash
# Expected: with `cache_requests`, a task whose prompt or data were changed is asked as it is now.
# Happens: the requests are kept under the name of the task and its number of examples, not its content: the model gets the
#   questions of the former version, and the results state the new prompt in `configs`.
# Version: lm-eval 0.4.13
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lm-eval==0.4.13
cat > write.py <<'PY'
import json

with open("own.jsonl", "w") as file:
    for question in ("May I?", "And then?"):
        file.write(json.dumps({"question": question, "answer": "No."}) + "\n")
PY
venv/bin/python write.py
cat > own.yaml <<'YAML'
task: own
dataset_path: json
dataset_kwargs:
  data_files:
    test: own.jsonl
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs:
  until: ["END"]
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1
YAML
cat > run.py <<'PY'
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

class Own(LM):
    def generate_until(self, requests, **_):
        print("asked", [request.args[0] for request in requests])
        return ["No."] * len(requests)
    def loglikelihood(self, requests, **_): raise NotImplementedError
    def loglikelihood_rolling(self, requests, **_): raise NotImplementedError

for text in ("{{question}}", "A child asks: {{question}}"):
    task = Path("own.yaml").read_text().splitlines()
    changed = [f'doc_to_text: "{text}"' if line.startswith("doc_to_text") else line for line in task]
    Path("own.yaml").write_text("\n".join(changed))
    tasks = TaskManager(include_path=".", include_defaults=False)
    results = simple_evaluate(Own(), tasks=["own"], task_manager=tasks, bootstrap_iters=0, cache_requests=True)
    print("stated", results["configs"]["own"]["doc_to_text"])
PY
export HF_HUB_OFFLINE=1 HF_HOME="$folder" LM_HARNESS_CACHE_PATH="$folder/requests"
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
asked ['May I?', 'And then?']
stated {{question}}
asked ['May I?', 'And then?']
stated A child asks: {{question}}
TEXT
