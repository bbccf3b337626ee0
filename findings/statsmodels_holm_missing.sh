#!/usr/bin/env bash
# Expected: a p-value that is missing is left out of `multipletests`, or refused, whichever method is named.
# Happens: Holm and Bonferroni count it as a test (p .01 of three becomes .04 for .03), Benjamini-Hochberg makes every
#   adjusted p NaN and still rejects the first hypothesis.
# Version: statsmodels 0.15.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check statsmodels==0.15.0
cat > run.py <<'PY'
from statsmodels.stats.multitest import multipletests

for values in ([0.01, 0.04, 0.03], [0.01, 0.04, 0.03, float("nan")]):
    for method in ("holm", "fdr_bh"):
        rejected, adjusted, *_ = multipletests(values, method=method)
        print(method, rejected.tolist(), [round(float(value), 3) for value in adjusted])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
holm [True, False, False] [0.03, 0.06, 0.06]
fdr_bh [True, True, True] [0.03, 0.04, 0.04]
holm [True, False, False, False] [0.04, 0.09, 0.09, nan]
fdr_bh [True, False, False, False] [nan, nan, nan, nan]
TEXT
