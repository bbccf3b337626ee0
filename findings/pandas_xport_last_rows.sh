#!/usr/bin/env bash
# Expected: `read_sas` of a SAS transport file (XPORT, as CDISC and NHANES publish) has all rows of the file.
# Happens: the last rows can be missing, without a word. Blocks of eight spaces among the last 80 bytes are taken for
#   padding wherever they stand, so each empty text there costs eight bytes: of six patients of whom four have no note,
#   five are read. pyreadstat reads six.
# Version: pandas 3.1.1, pyreadstat 1.3.7
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pandas==3.1.1 pyreadstat==1.3.7
cat > run.py <<'PY'
import pandas
import pyreadstat

notes = ["headache", "nausea", "", "", "", ""]
table = pandas.DataFrame({"PATIENT": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "NOTE": notes})
pyreadstat.write_xport(table, "ae.xpt", file_format_version=5)
rows, _columns = pyreadstat.read_xport("ae.xpt")
print(rows["PATIENT"].tolist())
print(pandas.read_sas("ae.xpt")["PATIENT"].tolist())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
[1.0, 2.0, 3.0, 4.0, 5.0]
TEXT
