#!/usr/bin/env bash
# Expected: `load_dataset` of a folder with three JSON files loads the rows of all three.
# Happens: a word of a file's name that is also that of a split decides: beside `blood-test.jsonl`, taken for the split
#   `test`, the files without such a word are left out, and nothing says so. The same folder without it has all rows,
#   as `train`.
# Version: datasets 5.2.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0
cat > run.py <<'PY'
import json
import os

from datasets import load_dataset

def load(*names):
    folder = f"records-{len(names)}"
    os.mkdir(folder)
    for name in names:
        with open(f"{folder}/{name}.jsonl", "w") as file:
            file.write(json.dumps({"from": name}) + "\n")
    print({split: data["from"][:] for split, data in load_dataset(folder).items()})

load("history", "imaging")
load("history", "imaging", "blood-test")
PY
HOME="$folder" HF_HOME="$folder" HF_HUB_OFFLINE=1 venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
{'train': ['history', 'imaging']}
{'test': ['blood-test']}
TEXT
