#!/usr/bin/env bash
# Expected: a note on an ECG that is longer than the format's 255 bytes is cut, or `wrann` refuses it.
# Happens: of its length the lowest eight bits are written, and the rest of the text is read as annotations: a recording
#   of five seconds with three beats has 131 marks, 26 of them premature atrial beats (A), and its last beat is at 200
#   seconds. Nothing warns, neither on writing nor on reading.
# Version: wfdb 4.3.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check wfdb==4.3.1
cat > run.py <<'PY'
import collections

import numpy as np
import wfdb

note = (
    "Sinus rhythm with frequent ventricular complexes, some of them in pairs; first degree block, left axis. Compared "
    "with the recording of March the ST segment in V2 to V4 is elevated by 2 mm. The ward was told at once, and the "
    "patient was taken to the catheter laboratory. No fever, no cough."
)
for text in (note[:255], note):
    wfdb.wrann("own", "atr", np.array([50, 300, 700, 1200]), symbol=["N", '"', "V", "N"], aux_note=["", text, "", ""], fs=250)
    read = wfdb.rdann("own", "atr")
    kept = [len(part) for part in read.aux_note if part]
    print(len(text), "->", kept, len(read.sample), read.sample[-2:].tolist())
    print(collections.Counter(str(mark) for mark in read.symbol).most_common(5))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
255 -> [255] 4 [700, 1200]
[('N', 2), ('"', 1), ('V', 1)]
289 -> [33] 131 [49603, 50103]
[('A', 26), ('t', 25), ('B', 23), ('p', 13), ('+', 11)]
TEXT
