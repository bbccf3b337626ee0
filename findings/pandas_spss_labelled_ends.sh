#!/usr/bin/env bash
# Expected: `read_spss` of a scale from 0 to 10 of which only the ends have labels, as questionnaires write them, keeps the
#   numbers, or has all of them beside the labels.
# Happens: the ends become texts among numbers, and whatever takes the column for numbers loses just them: with "coerce"
#   the mean pain of 0, 0, 10, 10, 10 and 4 is 4.0 for 5.67. Two codes with one label become one category, and the order of
#   a scale whose points all have labels is that of the alphabet.
# Version: pandas 3.1.1, pyreadstat 1.3.7
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pandas==3.1.1 pyreadstat==1.3.7
cat > run.py <<'PY'
import pandas as pd
import pyreadstat

data = pd.DataFrame({"pain": [0, 0, 10, 10, 10, 4], "dose": [1, 2, 3, 9, 1, 2]})
labels = {"pain": {0: "none", 10: "worst"}, "dose": {1: "low", 2: "medium", 3: "high", 9: "low"}}
pyreadstat.write_sav(data, "own.sav", variable_value_labels=labels)
read = pd.read_spss("own.sav")
print(read["pain"].tolist(), pd.to_numeric(read["pain"].astype(object), errors="coerce").mean(), data["pain"].mean().round(2))
print(read["dose"].tolist(), read["dose"].cat.categories.tolist(), read["dose"].cat.ordered)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['none', 'none', 'worst', 'worst', 'worst', 4.0] 4.0 5.67
['low', 'medium', 'high', 'low', 'low', 'medium'] ['high', 'low', 'medium'] False
TEXT
