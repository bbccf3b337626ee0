#!/usr/bin/env bash
# Expected: of two choices of which one is the text itself, `extractOne` takes that one, and `dedupe` keeps texts that
#   say the contrary.
# Happens: texts are compared without anything but letters and digits: HER2+ and HER2- are 100 alike, as are "< 2" and
#   "> 2", and the first choice wins. `dedupe` drops one of them, and of hepatitis A, B and C leaves one.
# Version: thefuzz 0.22.1 (rapidfuzz 3.14.6)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check thefuzz==0.22.1 rapidfuzz==3.14.6
cat > run.py <<'PY'
from thefuzz import fuzz, process

print(process.extractOne("HER2-", ["HER2+", "HER2-"]))
print(fuzz.token_sort_ratio("INR < 2", "INR > 2"))
print(len(process.dedupe(["HER2+", "HER2-", "ER+"])), process.dedupe(["hepatitis A", "hepatitis B", "hepatitis C"]))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
('HER2+', 100)
100
2 ['hepatitis C']
TEXT
