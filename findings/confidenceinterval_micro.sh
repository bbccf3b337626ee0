#!/usr/bin/env bash
# Expected: `f1_score`, `precision_score` and `recall_score` of a package "with the standard scikit-learn naming convention
#   and interface" give scikit-learn's value, with an interval.
# Happens: without `average` they pool both classes, where scikit-learn takes the positive one, so that all three are the
#   accuracy: of 100 answers with 8 hallucinations, 6 of them found and 3 falsely, F1 is .95 for .71, and its interval
#   excludes the right value. An area under the curve of 1 in ten answers has the interval from 1 to 1.
# Version: confidenceinterval 1.0.5, scikit-learn 1.9.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check confidenceinterval==1.0.5 scikit-learn==1.9.1
cat > run.py <<'PY'
import confidenceinterval
import numpy as np
from sklearn import metrics

truth = [1] * 8 + [0] * 92
found = [1] * 6 + [0] * 2 + [1] * 3 + [0] * 89
for name in ("f1_score", "precision_score", "recall_score"):
    value, interval = getattr(confidenceinterval, name)(truth, found)
    low, high = interval
    print(name, f"{value:.2f} ({low:.2f} to {high:.2f})", "scikit-learn", f"{getattr(metrics, name)(truth, found):.2f}")
print("accuracy", metrics.accuracy_score(truth, found))
area, interval = confidenceinterval.roc_auc_score(np.array([0] * 5 + [1] * 5), np.arange(10) / 10)
print("area", float(area), [float(end) for end in interval])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
f1_score 0.95 (0.91 to 0.99) scikit-learn 0.71
precision_score 0.95 (0.91 to 0.99) scikit-learn 0.67
recall_score 0.95 (0.91 to 0.99) scikit-learn 0.75
accuracy 0.95
area 1.0 [1.0, 1.0]
TEXT
