#!/usr/bin/env bash
# Expected: units of UCUM have the value that UCUM's own table gives them: [Cal] is 1 kcal, mg% is 1 mg/dL.
# Happens: [Cal] is one calorie, a thousandth: a diet of 1800 is 1.8 kcal. g% and its parts are a mass: a glucose of 180
#   mg% is 1.8 mg. A minute of arc is one of time, and a cubic foot a hundredth of a foot. The table that the package
#   ships has them right.
# Version: ucumvert 0.3.2, pint 0.25.3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ucumvert==0.3.2 pint==0.25.3
cat > run.py <<'PY'
from ucumvert import PintUcumRegistry

registry = PintUcumRegistry()
for value, code, unit in ((1800, "[Cal]", "kcal"), (180, "mg%", "mg"), (10, "'", "second"), (1, "[cft_i]", "foot")):
    quantity = value * registry.from_ucum(code)
    print(value, code, "=", round(quantity.to(unit).magnitude, 4), unit)
print(180, "mg%", "is one of mg/dL:", registry.from_ucum("mg%").is_compatible_with("mg/dL"))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
1800 [Cal] = 1.8 kcal
180 mg% = 1.8 mg
10 ' = 600 second
1 [cft_i] = 0.01 foot
180 mg% is one of mg/dL: False
TEXT
