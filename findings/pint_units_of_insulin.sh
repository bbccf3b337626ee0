#!/usr/bin/env bash
# Expected: "4 units" is refused as unknown, as "100 IU" and "5 mEq" are, or is a count.
# Happens: it is 4 micro-nit, a luminance: "units" is read as the prefix "u", the unit "nit" and a plural s. A dose in
#   units passes every check that a parser of quantities makes, with a dimension; so does "7.4 pH" (picohenry).
# Version: pint 0.25.3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pint==0.25.3
cat > run.py <<'PY'
import pint

registry = pint.UnitRegistry()
for text in ("4 units", "7.4 pH", "100 IU", "5 mEq"):
    try:
        quantity = registry(text)
        print(text, "->", quantity, dict(quantity.dimensionality))
    except pint.UndefinedUnitError:
        print(text, "-> undefined")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
4 units -> 4 micronit {'[luminosity]': 1, '[length]': -2}
7.4 pH -> 7.4 picohenry {'[mass]': 1, '[length]': 2, '[time]': -2, '[current]': -2}
100 IU -> undefined
5 mEq -> undefined
TEXT
