#!/usr/bin/env bash
# Expected: `merge` on identifiers of 18 digits, as SNOMED CT's extensions have them, joins equal ones.
# Happens: as soon as one row of a table lacks its identifier, the column is one of floats, and `merge` compares as
#   floats without a warning: one row about 999000011000000103 is joined to that concept, to 999000011000000104 and to
#   each other one nearby.
# Version: pandas 3.1.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pandas==3.1.1
cat > run.py <<'PY'
import pandas

answers = pandas.DataFrame({"concept": [999000011000000103, 999000011000000104, 999000011000000150]})
for concepts in ([999000011000000103], [999000011000000103, None]):
    names = pandas.DataFrame({"concept": concepts, "name": ["UK", "?"][: len(concepts)]})
    print(names["concept"].dtype, answers.merge(names, on="concept")["concept"].tolist())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
int64 [999000011000000103]
float64 [999000011000000103, 999000011000000104, 999000011000000150]
TEXT
