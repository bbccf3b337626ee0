#!/usr/bin/env bash
# Expected: Wilcoxon's test of pairs finds the pairs by the question that was answered, or asks which column names it.
# Happens: `posthoc_wilcoxon` takes the n-th row of one model and the n-th of the other, and has no argument for what
#   they share: the same table in another order of rows has another p, .125 for .531, and nothing says so.
#   `posthoc_nemenyi_friedman` asks for it.
# Version: scikit-posthocs 0.17.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scikit-posthocs==0.17.1
cat > run.py <<'PY'
import pandas
import scikit_posthocs

scores = {"A": [1, 1, 2, 1, 2, 1], "B": [2, 3, 3, 2, 4, 2], "C": [3, 2, 4, 5, 3, 3]}
rows = [(model, question, score) for model, of in scores.items() for question, score in enumerate(of)]
table = pandas.DataFrame(rows, columns=["model", "question", "score"])
for order in (table, table.sort_values(["model", "score"])):
    print(scikit_posthocs.posthoc_wilcoxon(order, val_col="score", group_col="model").loc["B"].round(3).to_dict())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
{'A': 0.031, 'B': 1.0, 'C': 0.531}
{'A': 0.031, 'B': 1.0, 'C': 0.125}
TEXT
