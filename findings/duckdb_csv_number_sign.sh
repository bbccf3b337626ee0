#!/usr/bin/env bash
# Expected: `read_csv` of a regular file of two columns has a row for each of its lines.
# Happens: a line that begins with "#" is taken for a comment where the reader guesses so from the file, though no
#   option asks for comments and the others have none: the bed "#2" and its verdict are gone, and the rate of "no" is 0
#   for 1 of 3.
# Version: duckdb 2.0.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1
cat > run.py <<'PY'
import duckdb

with open("beds.csv", "w") as file:
    file.write("bed,correct\n1,yes\n#2,no\n3,yes\n")
print(duckdb.sql("select * from read_csv('beds.csv')").fetchall())
print(duckdb.sql("select * from read_csv('beds.csv', comment = '')").fetchall())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
[(1, True), (3, True)]
[('1', True), ('#2', False), ('3', True)]
TEXT
