#!/usr/bin/env bash
# Expected: in a ranking by Bradley and Terry with one model that lost each comparison, the others keep their order, or
#   the fit is refused.
# Happens: all scores are 0.000001, the least that it gives, and the order is that in which the models came: B, which
#   lost 9 of 10 to A, is first. Nothing but `iterations`, at its limit, tells. Without the games of the model that lost
#   each, A has 3 and B .333.
# Version: evalica 0.4.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check evalica==0.4.2
cat > run.py <<'PY'
import evalica

games = [("B", "A", 1), ("A", "B", 9), ("B", "C", 9)]


def scores(games):
    first, second, times = map(list, zip(*games))
    result = evalica.bradley_terry(first, second, [evalica.Winner.X] * len(games), weights=[float(count) for count in times])
    return result.scores.round(6).to_dict(), result.iterations == result.limit


print(scores(games))
print(scores(games[:2]))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
({'B': 1e-06, 'A': 1e-06, 'C': 1e-06}, True)
({'A': 3.0, 'B': 0.333333}, False)
TEXT
