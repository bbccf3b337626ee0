#!/usr/bin/env bash
# Expected: to validate a reply leaves it as it is, as jsonschema does.
# Happens: what is missing is filled in with the schema's `default`, in the object that is validated: a judge's reply
#   without a verdict has one afterwards, and a count of those that gave none finds nobody.
# Version: fastjsonschema 2.22.3, jsonschema 4.26.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check fastjsonschema==2.22.3 jsonschema==4.26.0
cat > run.py <<'PY'
import fastjsonschema
import jsonschema

schema = {"type": "object", "properties": {"met": {"type": "boolean", "default": False}, "reason": {"type": "string"}}}
for validate in (jsonschema.validate, lambda reply, schema: fastjsonschema.validate(schema, reply)):
    reply = {"reason": "The answer is in another language."}
    validate(reply, schema)
    print(reply)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
{'reason': 'The answer is in another language.'}
{'reason': 'The answer is in another language.', 'met': False}
TEXT
