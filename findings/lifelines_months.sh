#!/usr/bin/env bash
# Expected: `datetimes_to_durations`, which gives "floats" in the unit of `freq`, gives fractions of a month, or full
#   months of the calendar.
# Happens: they are cut to whole mean months (30.44 days) and years (365.2425): from 1 February to 1 March is 0 months, so
#   that a death after four weeks is one on the first day, a calendar year is 11 months and 0 years. The mean of many
#   loses half a unit.
# Version: lifelines 0.30.3, pandas 2.3.3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lifelines==0.30.3 pandas==2.3.3
cat > run.py <<'PY'
from lifelines import KaplanMeierFitter
from lifelines.utils import datetimes_to_durations

starts = ["2023-02-01", "2023-01-01", "2023-01-01", "2023-01-01"]
ends = ["2023-03-01", "2023-03-01", "2023-07-01", "2024-01-01"]
for unit in ("D", "M", "Y"):
    durations, died = datetimes_to_durations(starts, ends, freq=unit)
    median = KaplanMeierFitter().fit(durations, died).median_survival_time_
    print(unit, durations.tolist(), "median", float(median))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
D [28.0, 59.0, 181.0, 365.0] median 59.0
M [0.0, 1.0, 5.0, 11.0] median 1.0
Y [0.0, 0.0, 0.0, 0.0] median 0.0
TEXT
