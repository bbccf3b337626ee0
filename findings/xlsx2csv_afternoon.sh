#!/usr/bin/env bash
# Expected: times and percentages of an Excel file are in the CSV as they are in the file.
# Happens: a date with a time, in the format in which openpyxl and pandas write it, is written in hours from 1 to 12
#   without a.m. or p.m.: a drug given at 13:05 was given at 01:05, at midnight at 12:00, and 23:05 becomes 11:04:59. A
#   rate of 12.5%, shown without decimals, is 13%. polars reads the same through its engine xlsx2csv.
# Version: xlsx2csv 0.8.6, openpyxl 3.1.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check xlsx2csv==0.8.6 openpyxl==3.1.5
cat > run.py <<'PY'
import io
from datetime import datetime

import openpyxl
import xlsx2csv

book = openpyxl.Workbook()
for hour in (0, 9, 13, 23):
    book.active.append([datetime(2024, 3, 5, hour, 5), 0.125])
for cell in book.active["B"]:
    cell.number_format = "0%"
book.save("given.xlsx")
text = io.StringIO()
xlsx2csv.Xlsx2csv("given.xlsx", lineterminator="\n").convert(text)
print(text.getvalue().strip())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
2024-03-05 12:05:00,13%
2024-03-05 09:05:00,13%
2024-03-05 01:05:00,13%
2024-03-05 11:04:59,13%
TEXT
