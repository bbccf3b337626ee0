#!/usr/bin/env bash
# Expected: `repeats: 3` asks a question three times and scores the three answers (2 right of 6: exact_match .33).
# Happens: three answers are asked for and paid, the first is scored (exact_match 1.0) unless the task names a filter of its
#   own; the results say "effective: 2" and nowhere that four answers were dropped.
# Version: lm-eval 0.4.13
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lm-eval==0.4.13
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
repeats: 3
generation_kwargs:
  until: ["\n"]
  do_sample: true
  temperature: 1.0
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1
YAML
cat > own.jsonl <<'JSON'
{"question": "1+1=", "answer": "2"}
{"question": "2+2=", "answer": "4"}
JSON
cat > run.py <<'PY'
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

class Counting(LM):
    """Right at the first answer to a question, wrong at the two others."""
    asked = []
    def generate_until(self, requests, **_):
        answers = []
        for request in requests:
            question = request.args[0]
            first = question not in self.asked
            self.asked.append(question)
            answers.append({"1+1=": "2", "2+2=": "4"}[question] if first else "wrong")
        return answers
    def loglikelihood(self, requests, **_): raise NotImplementedError
    def loglikelihood_rolling(self, requests, **_): raise NotImplementedError

model = Counting()
results = simple_evaluate(model, tasks=["own"], task_manager=TaskManager(include_path="."), bootstrap_iters=0, log_samples=True)
print("asked", len(model.asked))
print("exact_match", float(results["results"]["own"]["exact_match,none"]))
sample = results["samples"]["own"][0]
print("kept", sample["resps"], sample["filtered_resps"])
print("n-samples", results["n-samples"])
PY
HF_HUB_OFFLINE=1 HF_HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
asked 6
exact_match 1.0
kept [['2', 'wrong', 'wrong']] ['2']
n-samples {'own': {'original': 2, 'effective': 2}}
TEXT
