#!/usr/bin/env bash
# Expected: `csvsort` changes the order of the rows and nothing else.
# Happens: it writes what it takes the values for: a titre of 1:40 becomes 0:01:40, 50% is 50, the answers "None" and
#   "n/a" are empty, an age of 5 days is a time, "may" a date of the year 1, and a column of nothing but "f" (female) is
#   False.
# Version: csvkit 2.2.0 (agate 1.14.2)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check csvkit==2.2.0 agate==1.14.2
cat > run.py <<'PY'
import subprocess

with open("answers.csv", "w") as file:
    file.write("id,sex,age,titre,share,grade,answer,may\n1,f,5 days,1:40,50%,1,None,may\n2,f,2 weeks,1:20,5%,0,n/a,may\n")
command = ["venv/bin/csvsort", "--columns", "id", "answers.csv"]
print(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
id,sex,age,titre,share,grade,answer,may
1,False,"5 days, 0:00:00",0:01:40,50,True,,0001-05-01
2,False,"14 days, 0:00:00",0:01:20,5,False,,0001-05-01
TEXT
