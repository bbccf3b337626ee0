#!/usr/bin/env bash
# Expected: Krippendorff's alpha of raters who agree on everything is 1, also in pyirr, "a straight line-for-line port" of
#   R's irr package.
# Happens: it is right for four or five categories, as the example in R's help has. Of two or three the agreements are
#   counted among the disagreements: where all agree on yes and no, alpha is -.75, and .64 is -.44. From six on it is an
#   IndexError.
# Version: pyirr 0.84.1.2, krippendorff 0.9.0, numpy 2.4.6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyirr==0.84.1.2 krippendorff==0.9.0 numpy==2.4.6
cat > run.py <<'PY'
import krippendorff
import numpy as np
import pyirr

answers = {
    "yes and no, all agree": [[1, 1], [0, 0], [1, 1], [0, 0]],
    "yes and no, one differs": [[1, 1], [0, 0], [1, 1], [0, 0], [0, 1]],
    "four grades": [[1, 1], [2, 2], [3, 4], [4, 4], [3, 3]],
    "three grades, all agree": [[1, 1], [2, 2], [3, 3], [2, 2]],
}
for name, ratings in answers.items():
    alpha = pyirr.kripp_alpha(np.array(ratings)).value
    other = krippendorff.alpha(reliability_data=np.transpose(ratings), level_of_measurement="nominal")
    print(f"{name}: {alpha:.2f} for {other:.2f}")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
yes and no, all agree: -0.75 for 1.00
yes and no, one differs: -0.44 for 0.64
four grades: 0.76 for 0.76
three grades, all agree: -1.10 for 1.00
TEXT
