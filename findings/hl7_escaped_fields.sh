#!/usr/bin/env bash
# Expected: python-hl7 gives the same text of a field however it is asked for.
# Happens: by its path (`message["OBX.5"]`) escape sequences are read, by its index (`segment[5]`, as most examples do)
#   they are not: "MSI-H \T\ TMB 12" stays, and who compares or cuts the text takes backslashes and letters
#   for the report's.
# Version: hl7 0.4.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check hl7==0.4.5
cat > run.py <<'PY'
import hl7

message = hl7.parse(
    "MSH|^~\\&|LAB|A|SITE|B|20260101||ORU^R01|1|P|2.5\r"
    "OBX|1|ST|1^Marker||MSI-H \\T\\ TMB 12 \\F\\ Mb||||||F\r"
)
print(str(message.segment("OBX")[5]))
print(message["OBX.5"])
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
MSI-H \T\ TMB 12 \F\ Mb
MSI-H & TMB 12 | Mb
TEXT
