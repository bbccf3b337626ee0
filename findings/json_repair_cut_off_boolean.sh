#!/usr/bin/env bash
# Expected: a verdict that was cut off amid `false` is lost, or false.
# Happens: json_repair makes a text of it: {"met": fal -> "fal", which Python takes for true wherever
#   it is only asked whether it holds. Of two objects in a reply the last one counts, and a dose
#   "5 mg" without quotes is the number 5.
# Version: json_repair 0.64.6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install json_repair==0.64.6
"$folder/venv/bin/python" - <<'PYTHON'
import json_repair

replies = [
    ('{"met": fal', {"met": "fal"}),
    ('{"met": true} or rather {"met": false}', {"met": False}),
    ('{"dose": 5 mg}', {"dose": 5}),
]
for reply, seen in replies:
    value = json_repair.loads(reply)
    print(repr(reply), "->", value)
    assert value == seen, (reply, value)
assert bool(json_repair.loads('{"met": fal')["met"]) is True
PYTHON
