#!/usr/bin/env bash
# Expected: a field of JSON that is a string in every row is a column of strings.
# Happens: if all strings look like dates, the column becomes timestamps, and each value a datetime; an offset from UTC is
#   applied and lost. Whether a text column stays text so depends on the rows: one "unknown" among the dates keeps it.
# Version: datasets 5.2.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0
cat > run.py <<'PY'
import json

from datasets import load_dataset

def load(*answers):
    with open(f"{len(answers)}.jsonl", "w") as file:
        file.writelines(json.dumps({"answer": answer}) + "\n" for answer in answers)
    data = load_dataset("json", data_files=f"{len(answers)}.jsonl", split="train")
    print(data.features["answer"].dtype, [str(row["answer"]) for row in data])

load("2019-05-01", "2020-11-30T23:30:00-05:00")
load("2019-05-01", "2020-11-30T23:30:00-05:00", "unknown")
PY
HOME="$folder" HF_HOME="$folder" HF_HUB_OFFLINE=1 venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
timestamp[s] ['2019-05-01 00:00:00', '2020-12-01 04:30:00']
string ['2019-05-01', '2020-11-30T23:30:00-05:00', 'unknown']
TEXT
