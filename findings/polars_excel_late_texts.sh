#!/usr/bin/env bash
# Expected: `read_excel` of a column in which texts follow numbers reads them as texts, or refuses them, as its other
#   engines do.
# Happens: with its default engine the type is taken from the first 1,000 rows, and each later cell that does not fit is
#   missing: the doses "5 mg" of the last ten patients count as not given. `openpyxl` reads the same column as texts.
# Version: polars 2.1.0, fastexcel 0.21.0, openpyxl 3.1.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check polars==2.1.0 fastexcel==0.21.0 openpyxl==3.1.5
cat > run.py <<'PY'
import openpyxl
import polars

book = openpyxl.Workbook()
book.active.append(["patient", "dose"])
for patient in range(1, 1201):
    book.active.append([patient, 5])
for patient in range(1201, 1211):
    book.active.append([patient, "5 mg"])
book.save("doses.xlsx")
for engine in ("calamine", "openpyxl"):
    doses = polars.read_excel("doses.xlsx", engine=engine)["dose"]
    print(engine, doses.dtype, doses.null_count(), doses.tail(1).to_list())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
calamine Int64 10 [None]
openpyxl String 0 ['5 mg']
TEXT
