#!/usr/bin/env bash
# Expected: `get_majority_vote_label` decides a split vote without predictions as its documentation says, for the class
#   with the highest frequency.
# Happens: for the rarer one ("to prevent larger class imbalance", says a comment in its code). Where hallucinations are
#   rare, each answer on which two physicians differ becomes a hallucination: of 100 answers both call 10 hallucinated
#   and 80 not, and the consensus has 20.
# Version: cleanlab 2.9.0, numpy 2.4.6, pandas 3.1.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cleanlab==2.9.0 numpy==2.4.6 pandas==3.1.1
cat > run.py <<'PY'
import numpy as np
from cleanlab.multiannotator import get_majority_vote_label

ALIKE = [[0, 0]] * 80 + [[1, 1]] * 10
SPLIT = [[0, 1]] * 5 + [[1, 0]] * 5
print("hallucinated is 1:", get_majority_vote_label(np.array(ALIKE + SPLIT, dtype=float)).sum())
print("hallucinated is 0:", (1 - get_majority_vote_label(1 - np.array(ALIKE + SPLIT, dtype=float))).sum())
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
hallucinated is 1: 20
hallucinated is 0: 20
TEXT
