#!/usr/bin/env bash
# Expected: a verdict that is read into a class with a Boolean and a whole number has them, or is refused where it has
#   others.
# Happens: the type is called with the value, so that whatever can be called succeeds: "false" and "no" are True, a
#   score of 0.9 is 0, and a missing text is 'None'. mashumaro's `from_json` does the same.
# Version: cattrs 26.2.1, mashumaro 3.23
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cattrs==26.2.1 mashumaro==3.23
cat > run.py <<'PY'
from dataclasses import dataclass

from cattrs.preconf.json import make_converter
from mashumaro.mixins.json import DataClassJSONMixin


@dataclass
class Verdict(DataClassJSONMixin):
    met: bool
    score: int
    reason: str


reply = '{"met": "false", "score": 0.9, "reason": null}'
print(make_converter().loads(reply, Verdict))
print(Verdict.from_json(reply))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
Verdict(met=True, score=0, reason='None')
Verdict(met=True, score=0, reason='None')
TEXT
