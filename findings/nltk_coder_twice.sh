#!/usr/bin/env bash
# Expected: kappa of answers of which one coder gave two to the same item counts both, or is refused.
# Happens: kappa, pi and observed agreement take the answer that comes first in the list and drop the later one; alpha
#   counts both. With the rows in another order kappa is -1.0 for 1.0, and pi -1.67, below its least value.
# Version: nltk 3.10.4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check nltk==3.10.4
cat > run.py <<'PY'
from nltk.metrics.agreement import AnnotationTask

first, corrected = ("ana", "1", "yes"), ("ana", "1", "no")
others = [("bo", "1", "yes"), ("ana", "2", "no"), ("bo", "2", "no")]
for answers in ([first, corrected, *others], [corrected, first, *others]):
    task = AnnotationTask(data=answers)
    print(round(task.kappa(), 2), round(task.pi(), 2), round(task.alpha(), 2))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
1.0 1.0 0.33
-1.0 -1.67 0.33
TEXT
