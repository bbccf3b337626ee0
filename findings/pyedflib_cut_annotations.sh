#!/usr/bin/env bash
# Expected: an annotation of an EEG that was written is read whole, and a gap in the signal (NaN) is a gap, or refused.
# Happens: a text is cut after 40 bytes, without a word: of "left temporal, not a seizure" the denial is gone. Each NaN
#   that `EdfWriter` is given is the lowest value that the channel can have.
# Version: pyedflib 0.1.42
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyedflib==0.1.42
cat > run.py <<'PY'
import numpy as np
import pyedflib
from pyedflib import highlevel

signal = np.zeros(300)
signal[100:200] = np.nan
with pyedflib.EdfWriter("own.edf", 1) as file:
    file.setSignalHeaders([highlevel.make_signal_header("T3", sample_frequency=100, physical_min=-200, physical_max=200)])
    file.writeSamples([signal])
    file.writeAnnotation(1, 2.5, "Electrographic discharges left temporal, not a seizure")
with pyedflib.EdfReader("own.edf") as file:
    print([part[0].item() for part in file.readAnnotations()])
    read = file.readSignal(0)
print(read[[0, 99, 100, 199, 200]].round(1).tolist(), "mean", read.mean().round(1))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
[1.0, 2.5, 'Electrographic discharges left temporal,']
[0.0, 0.0, -200.0, -200.0, 0.0] mean -66.7
TEXT
