#!/usr/bin/env bash
# Expected: a score whose value is a word that is none of Inspect's letters is unscored, or the run fails.
# Happens: it counts as 0 and as scored. A scorer that says "correct" has accuracy 0, "N/A" and an empty text are wrong
#   answers, and a grade in words is 0 whichever it is. "yes" and "true" count as 1, "10" as 10: accuracy 6.
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

def saying(*values):
    left = list(values)
    @scorer(metrics=[accuracy()])
    def own():
        async def score(state, target):
            return Score(value=left.pop(0))
        return score
    return own()

for values in (("C", "N/A"), ("C", ""), ("correct", "incorrect"), ("none", "severe"), ("yes", "no"), ("10", "2")):
    task = Task(dataset=[Sample(input="May I?") for _ in values], scorer=saying(*values))
    [log] = eval(task, model="mockllm/model", log_dir="logs", display="none", max_samples=1)
    result = log.results.scores[0]
    print(values, result.metrics["accuracy"].value, "scored", result.scored_samples, "unscored", result.unscored_samples)
PY
HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
('C', 'N/A') 0.5 scored 2 unscored 0
('C', '') 0.5 scored 2 unscored 0
('correct', 'incorrect') 0.0 scored 2 unscored 0
('none', 'severe') 0.0 scored 2 unscored 0
('yes', 'no') 0.5 scored 2 unscored 0
('10', '2') 6.0 scored 2 unscored 0
TEXT
