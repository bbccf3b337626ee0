#!/usr/bin/env bash
# Expected: outcomes in words, or as the texts "1" and "0" of a file, are read or refused by the log-rank test, as
#   `KaplanMeierFitter` does; a patient whose arm is not known is refused or left out.
# Happens: each outcome that is not empty counts as a death: p is .62 for .11. Patients without an arm are left out of the
#   sums, but their arm counts as one: the degrees of freedom are 2, and p is .27 for .11.
# Version: lifelines 0.30.3, pandas 2.3.3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lifelines==0.30.3 pandas==2.3.3
cat > run.py <<'PY'
from lifelines import KaplanMeierFitter
from lifelines.statistics import multivariate_logrank_test

months = [5, 3, 9, 8, 7, 4, 4, 3, 2, 5, 6, 7]
died = [1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1]
arms = ["new", "old"] * 6
words = ["yes" if value else "no" for value in died]
texts = [str(value) for value in died]
for outcomes in (died, words, texts):
    print(outcomes[:3], round(multivariate_logrank_test(months, arms, outcomes).p_value, 3))
try:
    KaplanMeierFitter().fit(months, words)
except TypeError as error:
    print(error)
unknown = multivariate_logrank_test([*months, 1, 2], [*arms, None, None], [*died, 1, 1])
print("two without an arm", round(unknown.test_statistic, 2), round(unknown.p_value, 3), unknown.degrees_of_freedom)
known = multivariate_logrank_test(months, arms, died)
print("all with an arm", round(known.test_statistic, 2), round(known.p_value, 3), known.degrees_of_freedom)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
[1, 1, 0] 0.106
['yes', 'yes', 'no'] 0.619
['1', '1', '0'] 0.619
Wrong dtype '<U3'.
two without an arm 2.62 0.27 2
all with an arm 2.62 0.106 1
TEXT
