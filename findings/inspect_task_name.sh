#!/usr/bin/env bash
# Expected: `@task(name=NAME)` with a name that is computed when the file is imported works like one that is written out.
# Happens: eval() and the command line read the names of a file's tasks from its text without running it. A computed name is
#   registered under its value and looked up under the function's name: "Task named 'own' not found.", though a script that
#   imports the same file can run the task.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
cat > written.py <<'PY'
from inspect_ai import Task, task
from inspect_ai.dataset import Sample

@task(name="set_2026")
def own():
    return Task(dataset=[Sample(input="Hello?", target="Hello.")])
PY
sed 's/"set_2026"/"set_" + str(2026)/' written.py > computed.py
cat > run.py <<'PY'
from inspect_ai._eval.loader import load_tasks

print([task.name for task in load_tasks(["written.py"])])
try:
    load_tasks(["computed.py"])
except Exception as error:
    print(error.message if hasattr(error, "message") else error)
import computed

print(computed.own().name)
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
['set_2026']
Task named 'own' not found.
set_2026
TEXT
