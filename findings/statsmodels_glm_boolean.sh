#!/usr/bin/env bash
# Expected: a logistic regression of a Boolean outcome in a formula models the odds of True, as that of the same outcome
#   in 0 and 1 does.
# Happens: `glm` with the family Binomial models the odds of False: every coefficient has the other sign, and a longer
#   answer is safer instead of more often wrong. An outcome in words takes the first by the alphabet, so "no" of "yes"
#   and "no". `logit` refuses both.
# Version: statsmodels 0.15.0, pandas 3.1.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check statsmodels==0.15.0 pandas==3.1.1 numpy==2.4.6
cat > run.py <<'PY'
import pandas
import statsmodels.api
import statsmodels.formula.api

rows = pandas.DataFrame({"length": range(12), "wrong": [0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1]})
outcomes = {"number": rows["wrong"], "boolean": rows["wrong"] == 1, "word": rows["wrong"].map({0: "no", 1: "yes"})}
for name, outcome in outcomes.items():
    table = rows.assign(wrong=outcome)
    fit = statsmodels.formula.api.glm("wrong ~ length", table, family=statsmodels.api.families.Binomial()).fit()
    print(name, round(fit.params["length"], 3))
    try:
        print(round(statsmodels.formula.api.logit("wrong ~ length", table).fit(disp=0).params["length"], 3))
    except ValueError:
        print("refused")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
number 0.593
0.593
boolean -0.593
refused
word -0.593
refused
TEXT
