#!/usr/bin/env bash
# Expected: where two workers disagree, MajorityVote leaves the task open, or breaks the tie at random.
# Happens: all ties of a data set go to the label that comes first in the whole table: the same votes with the rows
#   reversed give the other verdict for every tied task.
# Version: crowd-kit 1.4.2 (numpy 1.26.4)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check crowd-kit==1.4.2 numpy==1.26.4
cat > run.py <<'PY'
import pandas
from crowdkit.aggregation import MajorityVote

votes = pandas.DataFrame(
    [(1, "ana", "no"), (1, "bo", "yes"), (2, "ana", "yes"), (2, "bo", "no"), (3, "ana", "yes"), (3, "bo", "yes")],
    columns=["task", "worker", "label"],
)
for table in (votes, votes.iloc[::-1]):
    print(dict(sorted(MajorityVote().fit_predict(table).items())))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
{1: 'no', 2: 'no', 3: 'yes'}
{1: 'yes', 2: 'yes', 3: 'yes'}
TEXT
