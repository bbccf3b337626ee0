#!/usr/bin/env bash
# Expected: `use_cache` (`--use_cache` of the command line) keeps the replies of each model, or refuses a file that has
#   another model's.
# Happens: a reply is found by the request alone. The second model that is evaluated with the same file is never asked: it
#   gets the first one's answers and its score, and the results name the second one.
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
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

class Own(LM):
    def __init__(self, answer):
        super().__init__()
        self.answer, self.asked = answer, 0
    def generate_until(self, requests, **_):
        self.asked += len(requests)
        return [self.answer] * len(requests)
    def loglikelihood(self, requests, **_): raise NotImplementedError
    def loglikelihood_rolling(self, requests, **_): raise NotImplementedError

for name, answer, cache in (("careful", "No.", "cache"), ("reckless", "Yes!", "cache"), ("reckless", "Yes!", None)):
    model = Own(answer)
    tasks = TaskManager(include_path=".", include_defaults=False)
    results = simple_evaluate(model, tasks=["own"], task_manager=tasks, bootstrap_iters=0, use_cache=cache)
    print(name, "asked", model.asked, "exact_match", float(results["results"]["own"]["exact_match,none"]))
PY
HF_HUB_OFFLINE=1 HF_HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
careful asked 2 exact_match 1.0
reckless asked 0 exact_match 1.0
reckless asked 2 exact_match 0.0
TEXT
