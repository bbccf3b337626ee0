#!/usr/bin/env bash
# Expected: `Dataset.from_list` has a column for each key of its rows, with nothing where a row lacks it, as it does
#   within an object.
# Happens: the columns are the keys of the first row. An `error` that the second row names is dropped without a word,
#   while a key that only the second row's inner object has is kept: the number of failures depends on which row comes
#   first.
# Version: datasets 5.2.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0
cat > run.py <<'PY'
from datasets import Dataset

answered = {"id": 1, "answer": "Yes.", "usage": {"input": 9}}
failed = {"id": 2, "answer": "", "error": "overloaded", "usage": {"cached": 4}}
for rows in ([answered, failed], [failed, answered]):
    data = Dataset.from_list(rows)
    print(data.column_names, sorted(data.features["usage"]))
PY
HOME="$folder" HF_HOME="$folder" HF_HUB_OFFLINE=1 venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['id', 'answer', 'usage'] ['cached', 'input']
['id', 'answer', 'error', 'usage'] ['cached', 'input']
TEXT
