#!/usr/bin/env bash
# Expected: `inspect eval /home/me/set/task.py` runs the task like `inspect eval set/task.py`.
# Happens: the name of the file is used as a pattern below the working directory, and pathlib takes no absolute patterns:
#   "NotImplementedError: Non-relative patterns are unsupported". The same in eval() of a script. Only relative paths work.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
mkdir set
cat > set/task.py <<'PY'
from inspect_ai import Task, task
from inspect_ai.dataset import Sample

@task
def own():
    return Task(dataset=[Sample(input="Hello?", target="Hello.")])
PY
cat > run.py <<'PY'
from pathlib import Path

import tiktoken

class Words:
    """So that nothing is downloaded to count tokens."""
    def encode(self, text, **options):
        return text.split()

tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
from inspect_ai import eval

for path in (Path("set/task.py"), Path("set/task.py").absolute()):
    kind = "absolute" if path.is_absolute() else "relative"
    try:
        [log] = eval(str(path), model="mockllm/model", log_dir="logs", display="none")
        print(kind, log.status)
    except NotImplementedError as error:
        print(kind, error)
PY
HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
relative success
absolute Non-relative patterns are unsupported
TEXT
