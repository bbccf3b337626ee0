#!/usr/bin/env bash
# Expected: numbers with a decimal comma, as Excel writes them in most of Europe, are numbers, or stay texts.
# Happens: they become places on Earth: a dose of 1,5 is the point at longitude 1 and latitude 5, and the file is valid. A
#   column with one value above 180 is one of texts again.
# Version: frictionless 5.21.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check frictionless==5.21.0
cat > run.py <<'PY'
from frictionless import Resource, validate

for values in (["1,5", "2,25"], ["1,5", "250,5"]):
    with open("doses.csv", "w") as file:
        file.write("patient;dose\n" + "".join(f"{number};{value}\n" for number, value in enumerate(values)))
    resource = Resource("doses.csv")
    rows = resource.read_rows()
    print(resource.schema.get_field("dose").type, [row["dose"] for row in rows], validate("doses.csv").valid)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
geopoint [[1.0, 5.0], [2.0, 25.0]] True
string ['1,5', '250,5'] True
TEXT
