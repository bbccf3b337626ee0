#!/usr/bin/env bash
# Expected: doccano, installed by pip from PyPI, starts: its metadata names the versions that it works with.
# Happens: it pins environs<10 and pandas<2, but leaves what these need open. marshmallow 4 lacks `__version_info__`, which
#   environs 9 reads on import; with marshmallow<4, numpy 2 refuses pandas 1's binaries. With marshmallow<4 and numpy<2 it starts.
# Version: doccano 1.8.4 (environs 9, pandas 1.5, marshmallow 4, numpy 2), Python 3.11
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export DOCCANO_HOME="$folder/home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check doccano==1.8.4 marshmallow==4.0.0
venv/bin/doccano init > output 2>&1 || true
venv/bin/pip install --quiet --disable-pip-version-check "marshmallow<4" "numpy>=2,<3"
venv/bin/python -c "import pandas" >> output 2>&1 || true
grep -oE "module 'marshmallow' has no attribute '__version_info__'|numpy.dtype size changed" output | sort -u | tee found
venv/bin/pip install --quiet --disable-pip-version-check "marshmallow<4" "numpy<2"
venv/bin/doccano init > started 2>&1
grep -o 'Role created successfully "annotator"' started | tee -a found
diff found - <<'TEXT'
module 'marshmallow' has no attribute '__version_info__'
numpy.dtype size changed
Role created successfully "annotator"
TEXT
