#!/usr/bin/env bash
# Expected: a sample whose scorer returns None is counted as unscored, as one whose score is NaN is.
# Happens: it is counted nowhere: of two samples, one right and one None, the log says accuracy 1.0, scored_samples 1
#   and unscored_samples 0; with NaN it says unscored_samples 1.
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
from inspect_ai.scorer import Score, accuracy, scorer

def run(open_score):
    @scorer(metrics=[accuracy()])
    def grade():
        async def score(state, target):
            return Score(value=True) if state.input == "right" else open_score
        return score

    data = [Sample(input="right", target="t"), Sample(input="open", target="t")]
    [log] = eval(Task(dataset=data, scorer=grade()), model="mockllm/model", log_dir="logs", display="none")
    [found] = log.results.scores
    print(found.metrics["accuracy"].value, found.scored_samples, found.unscored_samples, log.results.completed_samples)

run(Score(value=float("nan")))
run(None)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
1.0 1 1 2
1.0 1 0 2
TEXT
