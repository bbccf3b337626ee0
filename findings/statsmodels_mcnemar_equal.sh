#!/usr/bin/env bash
# Expected: McNemar's test of two models that never differ has p 1, or none.
# Happens: without `exact`, the continuity correction makes (|0 - 0| - 1)^2 / 0 of it: the statistic is infinite and p
#   is 0. Two equal models differ with certainty. The exact test of the same table has p 1.
# Version: statsmodels 0.15.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check statsmodels==0.15.0
cat > run.py <<'PY'
from statsmodels.stats.contingency_tables import mcnemar

both_right, both_wrong = 10, 5
table = [[both_right, 0], [0, both_wrong]]
for exact in (True, False):
    found = mcnemar(table, exact=exact)
    print(exact, float(found.statistic), float(found.pvalue))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
True 0.0 1.0
False inf 0.0
TEXT
