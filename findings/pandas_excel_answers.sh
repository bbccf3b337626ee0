#!/usr/bin/env bash
# Expected: answers that `to_excel` writes come back from `read_excel` as they were.
# Happens: pandas hands texts to openpyxl, which takes one that begins with "=" for a formula. When it is read, the formula
#   has no value yet: "=> stop aspirin" and "= 5 mg/kg" are missing, and count as answers that were not given.
# Version: pandas 3.1.1 (openpyxl 3.1.5)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pandas==3.1.1 openpyxl==3.1.5
cat > run.py <<'PY'
import pandas

answers = pandas.Series(["=> stop aspirin", "= 5 mg/kg", "Stop aspirin.", "-2.5"], name="answer")
answers.to_excel("answers.xlsx", index=False)
read = pandas.read_excel("answers.xlsx", dtype=str)["answer"]
print(read.isna().tolist(), read.dropna().tolist())
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
[True, True, False, False] ['Stop aspirin.', '-2.5']
TEXT
