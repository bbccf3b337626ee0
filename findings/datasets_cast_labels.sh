#!/usr/bin/env bash
# Expected: a column of labels that is cast to the same names in another order keeps each row's label, or is refused, as
#   `concatenate_datasets` refuses it.
# Happens: the numbers stay and the names change: each "met" becomes "not_met". And `class_encode_column` sorts grades as
#   texts: of the grades 1, 2, 3 and 10 the 10 gets the number between those of 1 and 2.
# Version: datasets 5.2.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0
cat > run.py <<'PY'
from datasets import ClassLabel, Dataset

def words(data, column):
    return [data.features[column].int2str(number) for number in data[column]]

verdicts = Dataset.from_dict({"verdict": ["met", "not_met", "met"]}).class_encode_column("verdict")
theirs = verdicts.cast_column("verdict", ClassLabel(names=["not_met", "met"]))
print(words(verdicts, "verdict"), "->", words(theirs, "verdict"))
grades = Dataset.from_dict({"grade": [1, 2, 3, 10]}).class_encode_column("grade")
print(grades.features["grade"].names, grades["grade"][:])
PY
HF_HUB_OFFLINE=1 HF_HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['met', 'not_met', 'met'] -> ['not_met', 'met', 'not_met']
['1', '10', '2', '3'] [0, 2, 3, 1]
TEXT
