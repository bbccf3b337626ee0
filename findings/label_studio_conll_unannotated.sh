#!/usr/bin/env bash
# Expected: a CoNLL export holds the texts that somebody annotated, with all their spans.
# Happens: a text that nobody annotated yet is in it, with O at each word, and so cannot be told from one in which an
#   annotator found nothing; a span within another one is dropped without a word.
# Version: label-studio-sdk 2.1.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check label-studio-sdk==2.1.2
cat > run.py <<'PY'
import json

from label_studio_sdk.converter import Converter

CONFIG = """<View>
  <Text name="text" value="$text"/>
  <Labels name="found" toName="text"><Label value="Order"/><Label value="Dose"/></Labels>
</View>"""

def task(number, *annotations):
    return {"id": number, "data": {"text": "take 5 mg"}, "annotations": list(annotations)}

def annotation(number, *spans):
    result = [
        {"id": str(start), "from_name": "found", "to_name": "text", "type": "labels",
         "value": {"start": start, "end": end, "text": "take 5 mg"[start:end], "labels": [label]}}
        for start, end, label in spans
    ]
    return {"id": number, "completed_by": 1, "was_cancelled": False, "result": result}

tasks = [task(1), task(2, annotation(1)), task(3, annotation(2, (0, 9, "Order"), (5, 9, "Dose")))]
with open("tasks.json", "w") as file:
    json.dump(tasks, file)
Converter(CONFIG, ".", download_resources=False).convert("tasks.json", "out", "CONLL2003", is_dir=False)
for text in open("out/result.conll").read().strip().split("\n\n"):
    words = [line.split() for line in text.splitlines() if "DOCSTART" not in line]
    print(" ".join(word[-1] for word in words))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
O O O
O O O
B-Order I-Order I-Order
TEXT
