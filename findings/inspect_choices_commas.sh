#!/usr/bin/env bash
# Expected: `csv_dataset` splits a cell of choices in one way that keeps a choice whole, or refuses a cell that can be
#   read in two.
# Happens: it splits at each comma, also within a choice, and where there is none at each space: of two choices of
#   treatment three are made, and the target B, heparin, is a part of the first one. A single choice of two words is two
#   choices. Nothing checks their number.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
cat > run.py <<'PY'
from inspect_ai.dataset import csv_dataset

with open("questions.csv", "w") as file:
    file.write('input,choices,target\nWhat now?,"Aspirin, 100 mg daily,Heparin",B\nWhat else?,Give oxygen,A\n')
for sample in csv_dataset("questions.csv"):
    print(sample.choices, sample.target, sample.choices[ord(sample.target) - ord("A")])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['Aspirin', '100 mg daily', 'Heparin'] B 100 mg daily
['Give', 'oxygen'] A Give
TEXT
