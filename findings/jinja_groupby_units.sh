#!/usr/bin/env bash
# Expected: a template's `groupby` and `unique` put together what is equal.
# Happens: letters count alike, large or small: 5 mU (milliunits) and 5 MU (million units) of a drug are one group under
#   the name of the first, and `unique` drops the one that comes second. A prompt made so has lost a unit.
# Version: Jinja2 3.1.6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check Jinja2==3.1.6
cat > run.py <<'PY'
import jinja2

doses = [{"unit": "mU", "value": 5}, {"unit": "MU", "value": 2}, {"unit": "mg", "value": 1}]
text = "{% for unit, of in doses|groupby('unit') %}{{ unit }}: {{ of|map(attribute='value')|join(' + ') }}. {% endfor %}"
print(jinja2.Template(text).render(doses=doses))
print(jinja2.Template("{{ units|unique|join(', ') }}").render(units=["mU", "MU", "mg"]))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
mg: 1. mU: 5 + 2. 
mU, mg
TEXT
