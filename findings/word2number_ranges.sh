#!/usr/bin/env bash
# Expected: `word_to_num` of words that are not one number is refused, as it is of words without any.
# Happens: the words of numbers are added up, whatever stands between them: "two or three" tablets are 5, a pressure of
#   one hundred twenty over eighty is 200, and one in ten is 11.
# Version: word2number 1.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check word2number==1.1
cat > run.py <<'PY'
from word2number import w2n

for words in ("two or three", "five to ten", "one hundred twenty over eighty", "one in ten"):
    print(words, w2n.word_to_num(words))
try:
    w2n.word_to_num("half a tablet")
except ValueError:
    print("refused")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
two or three 5
five to ten 15
one hundred twenty over eighty 200
one in ten 11
refused
TEXT
