#!/usr/bin/env bash
# Expected: `DeepDiff` of the votes yes, yes, no and yes, no, no finds the vote that differs, in whichever order they
#   stand.
# Happens: with `ignore_order=True` a value counts once however often it is there: the two are equal, though the
#   majority is another one. So are 1, 1, 0 and 1, 0, 0. Only `report_repetition=True` tells.
# Version: deepdiff 9.1.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check deepdiff==9.1.0
cat > run.py <<'PY'
from deepdiff import DeepDiff

before, after = {"votes": ["yes", "yes", "no"]}, {"votes": ["yes", "no", "no"]}
print(DeepDiff(before, after, ignore_order=True))
print(len(DeepDiff(before, after)), len(DeepDiff(before, after, ignore_order=True, report_repetition=True)))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
{}
1 1
TEXT
