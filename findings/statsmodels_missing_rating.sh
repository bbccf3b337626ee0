#!/usr/bin/env bash
# Expected: `aggregate_raters` leaves out a rating that is NaN, or refuses it, as Fleiss' kappa wants the same number of
#   ratings for each subject.
# Happens: NaN becomes a category of its own: raters agree that both did not rate. Of five subjects that two raters rate
#   alike, and a third rates now and then, kappa falls from 1.0 to .37 without a word.
# Version: statsmodels 0.15.0, numpy 2.4.6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check statsmodels==0.15.0 numpy==2.4.6
cat > run.py <<'PY'
import numpy as np
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

two = np.array([[0, 0], [1, 1], [0, 0], [1, 1], [0, 0]], dtype=float)
third = np.array([[np.nan], [np.nan], [0], [1], [np.nan]])
for ratings in (two, np.hstack([two, third])):
    table, categories = aggregate_raters(ratings)
    print(categories.tolist(), round(float(fleiss_kappa(table)), 2))
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
[0.0, 1.0] 1.0
[0.0, 1.0, nan] 0.37
TEXT
