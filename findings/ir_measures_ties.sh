#!/usr/bin/env bash
# Expected: measures of one run that are asked for together rank documents of equal score alike.
# Happens: P@1 and RR put the higher identifier first, RR@10 the lower one: of three passages of which the only relevant one
#   shares the first place, RR is .5 and RR@10 is 1, or P@1 is 1 and RR@10 is .5, which no order gives.
# Version: ir_measures 0.4.3, pytrec_eval-terrier 0.5.11
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ir_measures==0.4.3 pytrec_eval-terrier==0.5.11
cat > run.py <<'PY'
import ir_measures
from ir_measures import RR, P, Success, nDCG

found = {"May it be given in pregnancy?": {"leaflet-1": 0.8, "leaflet-2": 0.8, "leaflet-3": 0.1}}
for right in ("leaflet-1", "leaflet-2"):
    relevant = {question: {right: 1} for question in found}
    values = ir_measures.calc_aggregate([P@1, Success@1, RR, RR@10, nDCG@10], relevant, found)
    print(right, {str(measure): round(value, 2) for measure, value in sorted(values.items(), key=str)})
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
leaflet-1 {'P@1': 0.0, 'RR': 0.5, 'RR@10': 1.0, 'Success@1': 0.0, 'nDCG@10': 0.63}
leaflet-2 {'P@1': 1.0, 'RR': 1.0, 'RR@10': 0.5, 'Success@1': 1.0, 'nDCG@10': 1.0}
TEXT
