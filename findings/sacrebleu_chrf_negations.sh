#!/usr/bin/env bash
# Expected: chrF of two sentences that say the contrary is below 100, as it is for any other pair of different sentences.
# Happens: white space is left out before characters are counted, so that a space can turn the meaning round for nothing:
#   "a symptomatic case" and "asymptomatic case", "a febrile child" and "afebrile child" score 100. With words counted too
#   (chrF++, `word_order=2`) they still score 81 and 88, more than "a febrile kid" for "a febrile child".
# Version: sacrebleu 2.6.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check sacrebleu==2.6.0
cat > run.py <<'PY'
from sacrebleu import CHRF

pairs = [
    ("It is a symptomatic case", "It is asymptomatic case"),
    ("a febrile child", "afebrile child"),
    ("a febrile child", "a febrile kid"),
]
for answer, reference in pairs:
    scores = [round(CHRF(word_order=order).sentence_score(answer, [reference]).score) for order in (0, 2)]
    print(answer, "|", reference, *scores)
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
It is a symptomatic case | It is asymptomatic case 100 88
a febrile child | afebrile child 100 81
a febrile child | a febrile kid 63 62
TEXT
