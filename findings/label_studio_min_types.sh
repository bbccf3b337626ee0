#!/usr/bin/env bash
# Expected: a question has the same type in every row of a JSON-MIN export.
# Happens: the type follows the number of answers. One choice is a string, two are an object with a list; one text is a
#   string, two are an object. So `row["answer"] == "yes"` misses each row that has "yes" and another choice.
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
  <Choices name="answer" toName="text" choice="multiple"><Choice value="yes"/><Choice value="unsure"/></Choices>
  <TextArea name="note" toName="text"/>
</View>"""

def task(number, choices, texts):
    result = [
        {"id": "a", "from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": choices}},
        {"id": "b", "from_name": "note", "to_name": "text", "type": "textarea", "value": {"text": texts}},
    ]
    annotation = {"id": number, "completed_by": 1, "was_cancelled": False, "result": result}
    return {"id": number, "data": {"text": "Fever?"}, "annotations": [annotation]}

with open("tasks.json", "w") as file:
    json.dump([task(1, ["yes"], ["Seen."]), task(2, ["yes", "unsure"], ["Seen.", "Twice."])], file)
Converter(CONFIG, ".", download_resources=False).convert("tasks.json", "out", "JSON_MIN", is_dir=False)
for row in json.load(open("out/result.json")):
    print(json.dumps([row["answer"], row["note"]]))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
["yes", "Seen."]
[{"choices": ["yes", "unsure"]}, {"text": ["Seen.", "Twice."]}]
TEXT
