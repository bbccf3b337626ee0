#!/usr/bin/env bash
# Expected: a reply that ends amid its JSON, as at the limit of tokens, is refused.
# Happens: `JsonOutputParser` completes it: a score of 0.95 that was cut after "0." is read as 0, and
#   of two verdicts the second one comes back without its value, and without a word about it.
# Version: langchain-core 1.8.3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install langchain-core==1.8.3
"$folder/venv/bin/python" - <<'PYTHON'
from langchain_core.output_parsers import JsonOutputParser

parser = JsonOutputParser()
whole = '{"explanation": "Two doses differ.", "score": 0.95}'
cut = whole[: whole.index("95")]
print(repr(cut), "->", parser.parse(cut))
assert parser.parse(whole)["score"] == 0.95
assert parser.parse(cut) == {"explanation": "Two doses differ.", "score": 0}

whole = '{"verdicts": [{"id": 1, "met": true}, {"id": 2, "met": false}]}'
cut = whole[: whole.index("se}")]
print(repr(cut), "->", parser.parse(cut))
assert parser.parse(cut) == {"verdicts": [{"id": 1, "met": True}, {"id": 2}]}
PYTHON
