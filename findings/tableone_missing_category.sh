#!/usr/bin/env bash
# Expected: in a table of two groups, a categorical variable that is missing for some patients is compared over those who
#   have it, as a number is, and the missing ones stand in the column "Missing".
# Happens: missing is a category of its own, in the percentages and in the test, which then asks whether the groups differ
#   in how much is missing: p is below .001 where those who have the variable are alike in both groups (p 1.0).
# Version: tableone 0.9.6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tableone==0.9.6
cat > run.py <<'PY'
import warnings

import pandas as pd
from tableone import TableOne

warnings.simplefilter("ignore")
answers = ["yes"] * 20 + ["no"] * 20
groups = {"a": answers, "b": answers[10:30] + [None] * 20}
rows = [(group, answer) for group, own in groups.items() for answer in own]
data = pd.DataFrame(rows, columns=["group", "smokes"])
for kept, told in ((data, "all"), (data.dropna(), "those who have it")):
    table = TableOne(kept, columns=["smokes"], categorical=["smokes"], groupby="group", pval=True).tableone
    print(told)
    for (_name, level), row in table.iterrows():
        print(" ", level, *[cell for cell in row.tolist() if cell])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
all
   80 40 40
  None 20 (25.0) 0 (0.0) 20 (50.0) <0.001
  no 30 (37.5) 20 (50.0) 10 (25.0)
  yes 30 (37.5) 20 (50.0) 10 (25.0)
those who have it
   60 40 20
  no 30 (50.0) 20 (50.0) 10 (50.0) 1.000
  yes 30 (50.0) 20 (50.0) 10 (50.0)
TEXT
