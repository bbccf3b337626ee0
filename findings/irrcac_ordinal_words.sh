#!/usr/bin/env bash
# Expected: with `weights="ordinal"` and answers in words, the order of the scale has to be given, or missing categories
#   are refused.
# Happens: the words are put into alphabetical order, "mild" < "moderate" < "none" < "severe", and weighted by it:
#   Gwet's AC2 of the same answers is .16 for .72. Nothing says that an order was assumed.
# Version: irrCAC 0.4.4 (pandas 2.3.3)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check irrCAC==0.4.4 pandas==2.3.3
cat > run.py <<'PY'
import pandas
from irrCAC.raw import CAC

scale = ["none", "mild", "moderate", "severe"]
answers = pandas.DataFrame({
    "first": ["mild", "none", "severe", "moderate", "none"],
    "second": ["none", "none", "moderate", "moderate", "mild"],
})
numbers = answers.map(scale.index)
for found in (CAC(answers, weights="ordinal"), CAC(numbers, weights="ordinal")):
    print([str(word) for word in found.categories], round(float(found.gwet()["est"]["coefficient_value"]), 2))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['mild', 'moderate', 'none', 'severe'] 0.16
['0', '1', '2', '3'] 0.72
TEXT
