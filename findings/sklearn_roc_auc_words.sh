#!/usr/bin/env bash
# Expected: `roc_auc_score` of labels in words asks which of them is the positive one, as `average_precision_score` and
#   `brier_score_loss` do.
# Happens: it takes the later one by the alphabet: the same scores of how likely an answer is supported have an area of
#   1 for "supported" and "contradicted", and of 0 for "factual" and "hallucinated".
# Version: scikit-learn 1.9.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scikit-learn==1.9.1
cat > run.py <<'PY'
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

scores = [0.9, 0.1, 0.8, 0.2]
for labels in (["supported", "contradicted"] * 2, ["factual", "hallucinated"] * 2):
    print(roc_auc_score(labels, scores))
for measure in (average_precision_score, brier_score_loss):
    try:
        measure(["factual", "hallucinated"] * 2, scores)
    except ValueError:
        print("refused")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
1.0
0.0
refused
refused
TEXT
