#!/usr/bin/env bash
# Expected: with `drop_invalid_rows` the rows that break a rule are dropped, and no other; of a patient who is there twice
#   one row stays.
# Happens: rows are dropped by their label in the index, which two files that are joined by `concat` share: the dose -1 in
#   the first takes a valid row of the second with it. Under `unique` all rows of a value that is there twice are dropped,
#   so that the patient is gone. Nothing says so.
# Version: pandera 0.35.0, pandas 2.3.3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pandera==0.35.0 pandas==2.3.3
cat > run.py <<'PY'
import pandas as pd
import pandera.pandas as pa

one = pd.DataFrame({"patient": ["a", "b", "c"], "dose": [5, -1, 10]})
two = pd.DataFrame({"patient": ["d", "e", "f"], "dose": [20, 5, 5]})
rule = pa.DataFrameSchema({"dose": pa.Column(int, pa.Check.gt(0))}, drop_invalid_rows=True)
print(rule.validate(pd.concat([one, two]), lazy=True)["patient"].tolist())
print(rule.validate(pd.concat([one, two], ignore_index=True), lazy=True)["patient"].tolist())
twice = pd.DataFrame({"patient": ["a", "a", "b"], "dose": [5, 5, 10]})
single = pa.DataFrameSchema({"patient": pa.Column(str, unique=True)}, drop_invalid_rows=True)
print(single.validate(twice, lazy=True)["patient"].tolist())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['a', 'c', 'd', 'f']
['a', 'c', 'd', 'e', 'f']
['b']
TEXT
