#!/usr/bin/env bash
# Expected: `read_ndjson` keeps a field that only some rows have, or refuses the row that brings it, as `read_json` does.
# Happens: the fields are those of the first 100 rows; one that comes later is dropped without a word. Of a log whose first
#   error is in row 151 the column `error` is missing, and all rows look alike.
# Version: polars 2.1.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check polars==2.1.0
cat > run.py <<'PY'
import json

import polars

rows = [{"id": number, "score": 0.5} for number in range(200)]
for row in rows[150:]:
    row["error"] = "timed out"
with open("log.jsonl", "w") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)
with open("log.json", "w") as file:
    json.dump(rows, file)
print("read_ndjson", polars.read_ndjson("log.jsonl").columns)
print("scan_ndjson", polars.scan_ndjson("log.jsonl").collect().columns)
print("whole file", polars.read_ndjson("log.jsonl", infer_schema_length=None)["error"].count())
try:
    polars.read_json("log.json")
except polars.exceptions.ComputeError as error:
    print("read_json", str(error).partition(",")[0])
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
read_ndjson ['id', 'score']
scan_ndjson ['id', 'score']
whole file 50
read_json extra field in struct data: error
TEXT
