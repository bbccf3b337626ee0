#!/usr/bin/env bash
# Expected: a decimal that is read as `Decimal` leaves as it came: in FHIR, 1.50 and 1.5 differ, and implementations
#   shall keep the precision (Datatypes, decimal).
# Happens: the JSON is parsed through a float first: a creatinine of 1.50 mg/dL is Decimal('1.5') and is written as 1.5.
# Version: fhir.resources 8.3.0 (fhir-core 1.1.12)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check fhir.resources==8.3.0 fhir-core==1.1.12
cat > run.py <<'PY'
from fhir.resources.quantity import Quantity

read = Quantity.model_validate_json('{"value": 1.50, "unit": "mg/dL"}')
print(repr(read.value), read.model_dump_json())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
Decimal('1.5') {"value":1.5,"unit":"mg/dL"}
TEXT
