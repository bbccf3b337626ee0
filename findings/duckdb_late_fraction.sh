#!/usr/bin/env bash
# Expected: a column of JSON whose numbers are whole at first and have fractions later is a column of fractions, or the
#   reader refuses the row that does not fit.
# Happens: the type is taken from the first 20,480 rows; later fractions are rounded to whole numbers without a word. A
#   mean of 30,000 scores is .833 for .917: each .5 at the end has become 0.
# Version: duckdb 2.0.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1
cat > run.py <<'PY'
import json

import duckdb

scores = [1] * 25_000 + [0.5] * 5_000
with open("scores.jsonl", "w") as file:
    file.writelines(json.dumps({"score": score}) + "\n" for score in scores)
[(mean, kind, least)] = duckdb.sql("select avg(score), any_value(typeof(score)), min(score) from 'scores.jsonl'").fetchall()
print(round(sum(scores) / len(scores), 3), round(mean, 3), kind, least)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
0.917 0.833 BIGINT 0
TEXT
