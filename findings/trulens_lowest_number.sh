#!/usr/bin/env bash
# Expected: the score of a judge's reply "3 hallucinations were found. Score: 9" is 9, or none.
# Happens: TruLens takes the lowest number from 0 to 10 in the reply and goes on with a warning in the
#   log: 3 of this reply, 4 of "Of 5 claims, 4 are supported: 9".
# Version: trulens-feedback 2.16.0 (trulens-core 2.16.0)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install trulens-feedback==2.16.0 trulens-core==2.16.0
"$folder/venv/bin/python" - <<'PYTHON'
from trulens.feedback.generated import re_0_10_rating

replies = [
    ("Score: 9", 9),
    ("3 hallucinations were found. Score: 9", 3),
    ("Of 5 claims, 4 are supported: 9", 4),
]
for reply, seen in replies:
    score = re_0_10_rating(reply)
    print(repr(reply), "->", score)
    assert score == seen, (reply, score)
PYTHON
