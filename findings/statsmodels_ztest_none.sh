#!/usr/bin/env bash
# Expected: a test of one share against a fixed one that finds 0 hallucinations of 10 where 10% are expected has a large
#   p.
# Happens: `proportions_ztest` takes the spread from the share that was found: with none it is 0, the statistic infinite
#   and p 0. Of 1 in 100 against 5% p is .00006, where the exact test has .065; with `prop_var=.05`, the spread under
#   the hypothesis, it is .066.
# Version: statsmodels 0.15.0, scipy 1.17.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check statsmodels==0.15.0 scipy==1.17.1 pandas==3.1.1 numpy==2.4.6
cat > run.py <<'PY'
from scipy.stats import binomtest
from statsmodels.stats.proportion import proportions_ztest

for count, answers, expected in ((0, 10, 0.1), (1, 100, 0.05)):
    found = proportions_ztest(count, answers, expected)[1]
    pooled = proportions_ztest(count, answers, expected, prop_var=expected)[1]
    print(round(float(found), 5), round(float(pooled), 3), round(float(binomtest(count, answers, expected).pvalue), 3))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
0.0 0.292 0.613
6e-05 0.066 0.065
TEXT
