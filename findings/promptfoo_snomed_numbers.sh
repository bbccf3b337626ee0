#!/usr/bin/env bash
# Expected: a whole number in a file of tests is in the prompt and in the results as it stands in the file: JSON bounds none.
# Happens: digits from the 17th on are rounded away, without a warning. SNOMED CT's 900000000000207008 (core module) is
#   asked as 900000000000207000, and a sample's id in `metadata` comes back as another one.
# Version: promptfoo 0.121.20
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" promptfoo@0.121.20 >/dev/null
cat > config.json <<'JSON'
{"prompts": ["What is {{code}}?"], "providers": ["echo"], "tests": "tests.json"}
JSON
cat > tests.json <<'JSON'
[{"vars": {"code": 900000000000207008}, "metadata": {"sample": 138875005123456789}}]
JSON
cat > read.py <<'PY'
import json

[result] = json.load(open("results.json"))["results"]["results"]
print(result["response"]["output"], result["testCase"]["metadata"]["sample"])
PY
export PROMPTFOO_CONFIG_DIR="$folder/config" PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1
node_modules/.bin/promptfoo eval --config config.json --output results.json --no-cache --no-table >/dev/null 2>&1
python3 read.py | tee output
diff output - <<'TEXT'
What is 900000000000207000? 138875005123456780
TEXT
