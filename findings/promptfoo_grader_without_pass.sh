#!/usr/bin/env bash
# Expected: a grader's reply that does not say whether the rubric is met gives no verdict, or fails; and where the grader
#   itself fails, neither `llm-rubric` nor `not-llm-rubric` says anything of the answer.
# Happens: without `pass` an llm-rubric passes with score 1, whatever else the reply says ({"verdict": "no"}), and with
#   {"score": 0} it passes with score 0. A grader that fails, or writes no JSON, fails both kinds of assertion: read as
#   verdicts, the rubric is unmet and met; only `metadata.graderError` tells.
# Version: promptfoo 0.121.20
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" promptfoo@0.121.20 >/dev/null
cat > grader.js <<'JS'
const replies = {
  PASS: { output: '{"pass": true, "score": 1, "reason": ""}' },
  WORD: { output: '{"verdict": "no"}' },
  ZERO: { output: '{"score": 0}' },
  FAIL: { error: "the server broke" },
  TEXT: { output: "I cannot tell." },
};
module.exports = class {
  id() { return "own"; }
  async callApi(prompt) { return replies[/CASE (....)/.exec(prompt)[1]]; }
};
JS
cat > write.py <<'PY'
import json

tests = [
    {"description": f"{case} {kind}", "vars": {"answer": "!"}, "assert": [{"type": kind, "value": f"CASE {case}"}]}
    for case in ("PASS", "WORD", "ZERO", "FAIL", "TEXT")
    for kind in ("llm-rubric", "not-llm-rubric")
]
grader = {"options": {"provider": "file://grader.js"}}
with open("config.json", "w") as file:
    json.dump({"prompts": ["{{answer}}"], "providers": ["echo"], "defaultTest": grader, "tests": tests}, file)
PY
cat > read.py <<'PY'
import json

for result in json.load(open("results.json"))["results"]["results"]:
    [found] = result["gradingResult"]["componentResults"]
    failed = found.get("metadata", {}).get("graderError", False)
    print(result["testCase"]["description"], found["pass"], found["score"], "grader failed" if failed else "")
PY
python3 write.py
export PROMPTFOO_CONFIG_DIR="$folder/config" PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1
node_modules/.bin/promptfoo eval --config config.json --output results.json --no-cache --no-table >/dev/null 2>&1 || [ $? = 100 ]
python3 read.py | sed 's/ *$//' | tee output
diff output - <<'TEXT'
PASS llm-rubric True 1
PASS not-llm-rubric False 0
WORD llm-rubric True 1
WORD not-llm-rubric False 0
ZERO llm-rubric True 0
ZERO not-llm-rubric False 1
FAIL llm-rubric False 0 grader failed
FAIL not-llm-rubric False 0 grader failed
TEXT llm-rubric False 0 grader failed
TEXT not-llm-rubric False 0 grader failed
TEXT
