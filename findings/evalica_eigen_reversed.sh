#!/usr/bin/env bash
# Expected: of the scores of a ranking the winner's is the highest, whichever method is named.
# Happens: `eigen` gives the highest to the one that loses most, with either of its solvers, and sorts by it: of A,
#   which wins 5 of 6, B and C, which wins 1 of 6, C is first. `bradley_terry`, `newman` and `elo` rank A first.
# Version: evalica 0.4.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check evalica==0.4.2
cat > run.py <<'PY'
import evalica

won = [("A", "B")] * 2 + [("A", "C")] * 3 + [("B", "C")] * 2 + [("B", "A"), ("C", "B")]
first, second = zip(*won)
winners = [evalica.Winner.X] * len(won)
for method in (evalica.bradley_terry, evalica.newman, evalica.elo, evalica.eigen):
    print(method.__name__, list(method(first, second, winners).scores.index))
print(list(evalica.eigen(first, second, winners, solver="naive").scores.index))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
bradley_terry ['A', 'B', 'C']
newman ['A', 'B', 'C']
elo ['A', 'B', 'C']
eigen ['C', 'B', 'A']
['C', 'B', 'A']
TEXT
