#!/usr/bin/env bash
# Expected: two spans overlap that share a character; `end` is the first place after the span, as in Prodigy's, spaCy's and
#   Label Studio's spans.
# Happens: `end` counts as within the span, so that neighbours overlap: in Chinese, which has no spaces, who names the
#   diabetes (糖尿病) and misses the hypertension (高血压) just before it has found it: by type all is right, F1 1.0, and
#   `partial` is a half. With a character between them nothing is found.
# Version: nervaluate 1.2.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check nervaluate==1.2.1
cat > run.py <<'PY'
from nervaluate import Evaluator

def span(text, words):
    start = text.index(words)
    return {"label": "DISEASE", "start": start, "end": start + len(words)}

for text in ("高血压糖尿病", "高血压、糖尿病"):
    right, found = [span(text, "高血压")], [span(text, "糖尿病")]
    overall = Evaluator([right], [found], tags=["DISEASE"]).evaluate()["overall"]
    print(text, {name: result.f1 for name, result in sorted(overall.items())})
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
高血压糖尿病 {'ent_type': 1.0, 'exact': 0, 'partial': 0.5, 'strict': 0}
高血压、糖尿病 {'ent_type': 0, 'exact': 0, 'partial': 0, 'strict': 0}
TEXT
