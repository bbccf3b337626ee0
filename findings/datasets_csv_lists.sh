#!/usr/bin/env bash
# Expected: `to_csv` of a column with lists writes them whole, in a form that can be read again, or refuses them.
# Happens: it writes what numpy prints: no commas between the elements, and of more than 1,000 the first and last three with
#   "..." between them. Of the log probabilities of 1,500 tokens six are left, with eight digits each.
# Version: datasets 5.2.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0
cat > run.py <<'PY'
from datasets import Dataset

logged = {"sample": "s1", "met": [True, False], "traps": ["A1", "C2"], "logprobs": [-n / 7 for n in range(1, 1501)]}
Dataset.from_list([logged]).to_csv("logged.csv")
[row] = Dataset.from_csv("logged.csv", cache_dir="cache").to_list()
print(row["met"], row["traps"])
print(row["logprobs"])
PY
HF_HUB_OFFLINE=1 HF_HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
[ True False] ['A1' 'C2']
[-1.42857143e-01 -2.85714286e-01 -4.28571429e-01 ... -2.14000000e+02
 -2.14142857e+02 -2.14285714e+02]
TEXT
