#!/usr/bin/env bash
# Expected: of "120/80 mmHg" two pressures are found, or the text that was matched.
# Happens: one pressure of 1.5 mmHg is found: the slash divides. A range loses its ends too: "2-3 days" is 2.5 days.
# Version: quantulum3 0.10.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check quantulum3==0.10.0 inflect==7.5.0 num2words==0.5.14
cat > run.py <<'PY'
from quantulum3 import parser

for text in ("Blood pressure was 120/80 mmHg.", "She had fever for 2-3 days."):
    for found in parser.parse(text):
        print(found.value, found.unit.name)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
1.5 millimeter of mercury
2.5 day
TEXT
