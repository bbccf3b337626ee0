#!/usr/bin/env bash
# Expected: a table made of a list of rows has their values, or refuses one that does not fit, as it refuses a text
#   among numbers.
# Happens: the type of a column is that of the first 100 rows, and later fractions are cut to whole numbers without a
#   word: fifty scores of 0.5 are 0, and the mean of all is .667 for .833. A key that the first 100 rows lack is
#   dropped, within an object in a column's list already one that the first object lacks.
# Version: polars 2.1.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check polars==2.1.0
cat > run.py <<'PY'
import polars

rows = [{"score": 1}] * 100 + [{"score": 0.5, "error": "cut off"}] * 50
print(round(sum(row["score"] for row in rows) / len(rows), 3))
table = polars.DataFrame(rows)
print(round(table["score"].mean(), 3), table["score"].tail(1).to_list(), table.columns)
print(polars.DataFrame({"answer": [{"met": True}, {"met": False, "error": "cut off"}]})["answer"].to_list())
try:
    polars.DataFrame([{"score": 1}] * 100 + [{"score": "none"}])
except polars.exceptions.ComputeError:
    print("refused")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
0.833
0.667 [0] ['score']
[{'met': True}, {'met': False}]
refused
TEXT
