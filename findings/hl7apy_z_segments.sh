#!/usr/bin/env bash
# Expected: `parse_message` keeps the segments that a site adds, Z segments, as HL7 allows in any message, or refuses
#   the message.
# Happens: with its own defaults (`find_groups`, tolerant) it drops them without a word: the message has no ZDS any
#   more, neither among its children nor when it is written. With `find_groups=False` it is there.
# Version: hl7apy 1.3.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check hl7apy==1.3.5
cat > run.py <<'PY'
from hl7apy.parser import parse_message

message = "\r".join(
    [
        "MSH|^~\\&|LAB|A|EHR|A|20240105||ORU^R01|1|P|2.5",
        "PID|1||123",
        "OBR|1|||CREATININE",
        "OBX|1|NM|CREA||75|umol/L",
        "ZDS|1|CORRECTED: sample of another patient",
        "OBX|2|NM|K||4.1|mmol/L",
    ]
)
for find_groups in (True, False):
    read = parse_message(message, find_groups=find_groups)
    print([line[:3] for line in read.to_er7().split("\r") if line])
print([line[:3] for line in parse_message(message).to_er7().split("\r") if line])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['MSH', 'PID', 'OBR', 'OBX', 'OBX']
['MSH', 'PID', 'OBR', 'OBX', 'ZDS', 'OBX']
['MSH', 'PID', 'OBR', 'OBX', 'OBX']
TEXT
