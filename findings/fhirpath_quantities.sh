#!/usr/bin/env bash
# Expected: `=` of two quantities compares them in one unit, and of a resource's quantity with the same one written out is
#   true; where units cannot be converted the result is empty, as the specification of FHIRPath says.
# Happens: weeks and days are converted, masses are not: 1 kg is not 1000 g, 5 mg are not 5000 ug, and the answer is false
#   where it should be true. A resource's 5 mg are not 5 'mg' either. A rule that looks for a dose finds none.
# Version: fhirpathpy 2.2.4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check fhirpathpy==2.2.4
cat > run.py <<'PY'
from fhirpathpy import evaluate

dose = {"value": 5, "unit": "mg", "system": "http://unitsofmeasure.org", "code": "mg"}
observation = {"resourceType": "Observation", "valueQuantity": dose}
for expression in (
    "1 'wk' = 7 'd'", "1 'kg' = 1000 'g'", "5 'mg' = 5000 'ug'", "Observation.valueQuantity = 5 'mg'",
    "Observation.valueQuantity.value = 5",
):
    print(expression, "->", evaluate(observation, expression))
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
1 'wk' = 7 'd' -> [True]
1 'kg' = 1000 'g' -> [False]
5 'mg' = 5000 'ug' -> [False]
Observation.valueQuantity = 5 'mg' -> [False]
Observation.valueQuantity.value = 5 -> [True]
TEXT
