#!/usr/bin/env bash
# Expected: `ignore_punctuation` of lm-eval's `exact_match` forgives a full stop at the end.
# Happens: it removes each mark, also within numbers: 1.5 mg is right for 15 mg, -2.5 for 25, a range
#   10-20 for 1020, and "INR < 2" for "INR > 2".
# Version: lm_eval 0.4.13
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install lm_eval==0.4.13
"$folder/venv/bin/python" - <<'PYTHON'
from lm_eval.api.metrics import exact_match_hf_evaluate

pairs = [("1.5 mg", "15 mg"), ("-2.5", "25"), ("10-20", "1020"), ("INR < 2", "INR > 2")]
for answer, target in pairs:
    found = exact_match_hf_evaluate(predictions=[answer], references=[target], ignore_punctuation=True)
    print(f"{answer!r} for {target!r}: {found['exact_match']}")
    assert found["exact_match"] == 1.0, (answer, target)
PYTHON
