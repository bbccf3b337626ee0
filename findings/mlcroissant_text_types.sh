#!/usr/bin/env bash
# Expected: a field that the card declares as text, and that is a string in the JSON, comes back as that string; a
#   Boolean of "false" is false or refused.
# Happens: the file is read with guessed types before the card's are applied: the identifiers "007" and "1e3" come back
#   as 7 and 1000, and "false" is true.
# Version: mlcroissant 1.1.1 (pandas 2.3.3)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mlcroissant==1.1.1 pandas==2.3.3
cat > run.py <<'PY'
import hashlib
import json

import mlcroissant

rows = [{"patient": "007", "fever": "false"}, {"patient": "1e3", "fever": "true"}]
with open("rows.jsonl", "w") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)
with open("rows.jsonl", "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()

def field(name, kind):
    source = {"fileObject": {"@id": "file"}, "extract": {"column": name}}
    return {"@type": "cr:Field", "@id": f"rows/{name}", "name": name, "dataType": kind, "source": source}

cr = {name: f"cr:{name}" for name in ("column", "extract", "field", "fileObject", "recordSet", "source")}
card = {
    "@context": {
        "@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/", "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo", "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, **cr,
    },
    "@type": "sc:Dataset", "name": "rows", "conformsTo": "http://mlcommons.org/croissant/1.0",
    "distribution": [{
        "@type": "cr:FileObject", "@id": "file", "name": "file", "contentUrl": "rows.jsonl",
        "encodingFormat": "application/jsonlines", "sha256": digest,
    }],
    "recordSet": [{
        "@type": "cr:RecordSet", "@id": "rows", "name": "rows",
        "field": [field("patient", "sc:Text"), field("fever", "sc:Boolean")],
    }],
}
with open("card.json", "w") as file:
    json.dump(card, file)
for row in mlcroissant.Dataset("card.json").records("rows"):
    print(row)
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
{'rows/patient': b'7', 'rows/fever': True}
{'rows/patient': b'1000', 'rows/fever': True}
TEXT
