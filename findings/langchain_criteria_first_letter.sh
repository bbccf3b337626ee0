#!/usr/bin/env bash
# Expected: a judge's reply that ends in neither "Y" nor "N" has no score.
# Happens: where the last line is neither, the parser of the criteria evaluator looks at the first
#   letter of the reply: "Yellow skin was overlooked, ..." meets a criterion, "Nothing is wrong"
#   does not. "Yes" on the last line has no score.
# Version: langchain-classic 1.0.8 (langchain-core 1.8.3)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install langchain-classic==1.0.8 langchain-core==1.8.3
"$folder/venv/bin/python" - <<'PYTHON'
from langchain_classic.evaluation.criteria.eval_chain import CriteriaResultOutputParser

parser = CriteriaResultOutputParser()
replies = [
    ("The answer names the dose.\nY", 1),
    ("Yellow skin was overlooked, so the criterion is not met.", 1),
    ("Nothing is wrong with this answer.", 0),
    ("The answer names the dose.\nYes", None),
]
for reply, seen in replies:
    score = parser.parse(reply)["score"]
    print(repr(reply), "->", score)
    assert score == seen, (reply, score)
PYTHON
