#!/usr/bin/env bash
# Expected: Cronbach's alpha of items of which some answers are missing is at most 1, as it is by its definition.
# Happens: variances and covariances are each of the rows that have them, and do not fit together: alpha is 1.03, with an
#   interval from 1.218 to 1.002, and no warning. Over the complete rows (`nan_policy="listwise"`) it is .989.
# Version: pingouin 0.7.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pingouin==0.7.0
cat > run.py <<'PY'
import pandas as pd
import pingouin

scores = pd.DataFrame([(1, 2, 1), (5, 5, 6), (9, 9, 8), (4, None, 4)], columns=["a", "b", "c"])
for options in ({}, {"nan_policy": "listwise"}):
    alpha, interval = pingouin.cronbach_alpha(data=scores, **options)
    print(options, round(float(alpha), 3), [round(float(end), 3) for end in interval])
PY
venv/bin/python -W error::UserWarning run.py | tee output
diff output - <<'TEXT'
{} 1.033 [1.218, 1.002]
{'nan_policy': 'listwise'} 0.989 [0.927, 0.999]
TEXT
