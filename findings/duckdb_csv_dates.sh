#!/usr/bin/env bash
# Expected: dates that can be read in more than one way stay texts, or are read in one way whatever else the file has.
# Happens: the order of day and month is guessed anew from each file: 05/06/2024 is 5 June, and 6 May as soon as another
#   row has a day above 12 in the second place. With a year of two digits the first number is the year: 05/06/24 is 24
#   June 2005.
# Version: duckdb 2.0.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1
cat > run.py <<'PY'
import duckdb

for dates in (["05/06/2024", "07/08/2024"], ["05/06/2024", "07/18/2024"], ["05/06/24", "07/08/24"]):
    with open("visits.csv", "w") as file:
        file.write("\n".join(["visit", *dates, ""]))
    print(dates[0], duckdb.sql("select visit from read_csv('visits.csv')").fetchall()[0][0])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
05/06/2024 2024-06-05
05/06/2024 2024-05-06
05/06/24 2005-06-24
TEXT
