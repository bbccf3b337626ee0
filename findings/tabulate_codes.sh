#!/usr/bin/env bash
# Expected: a table that is written for a paper has the texts of its columns as they are.
# Happens: a column whose texts all look like numbers is written as numbers: with `to_markdown` of pandas the codes 001,
#   1E5 and 010 are 1, 100000 and 10, a dose of 1.50 is 1.5, and of the identifiers of SNOMED CT beside one that has a
#   point each is 9e+17.
# Version: tabulate 0.10.0, pandas 3.1.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tabulate==0.10.0 pandas==3.1.1
cat > run.py <<'PY'
import pandas

codes = ["900000000000207008", "900000000000441003", "1.5"]
print(pandas.DataFrame({"icd": ["001", "1E5", "010"], "dose": ["1.50", "2.0", "10"], "concept": codes}).to_markdown(index=False))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
|    icd |   dose |   concept |
|-------:|-------:|----------:|
|      1 |    1.5 |     9e+17 |
| 100000 |    2   |     9e+17 |
|     10 |   10   |     1.5   |
TEXT
