#!/usr/bin/env bash
# Expected: `csvjoin` joins the rows of two files whose identifiers are equal.
# Happens: identifiers that look like numbers are compared as numbers: 001, 1 and 1e0 are three patients, and each of
#   them gets the rows of 001 and of 01. They are written as 1, so that the result does not tell. `--no-inference` joins
#   one row.
# Version: csvkit 2.2.0 (agate 1.14.2)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check csvkit==2.2.0 agate==1.14.2
cat > run.py <<'PY'
import subprocess

files = {"answers.csv": ["id,answer", "001,yes", "1,no", "1e0,maybe"], "raters.csv": ["id,rater", "001,A", "01,B"]}
for name, lines in files.items():
    with open(name, "w") as file:
        file.write("\n".join([*lines, ""]))
for options in ([], ["--no-inference"]):
    command = ["venv/bin/csvjoin", *options, "--columns", "id", *files]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
id,answer,rater
1,yes,A
1,yes,B
1,no,A
1,no,B
1,maybe,A
1,maybe,B
id,answer,rater
001,yes,A
TEXT
