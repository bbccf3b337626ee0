#!/usr/bin/env bash
# Expected: records that are written with `to_json` and read with `from_json` are the records that were written.
# Happens: the JSON has no status of a response, so one that its author discarded, or submitted, comes back without, and is
#   sent to the server as a draft. A reader of the file cannot tell a discarded answer from a submitted one.
# Version: argilla 2.8.0 (which imports requests and does not require it)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check argilla==2.8.0 requests
cat > run.py <<'PY'
import http.server, json, threading, uuid

import argilla as rg
from argilla.records._io import JsonIO

class Server(http.server.BaseHTTPRequestHandler):
    """What the client asks before it makes any object: who it is."""
    def do_GET(self):
        user = {"id": str(uuid.UUID(int=1)), "username": "ana", "role": "owner"}
        moments = {"inserted_at": "2026-01-01T00:00:00", "updated_at": "2026-01-01T00:00:00"}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**user, **moments}).encode())
    def log_message(self, *about): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = rg.Argilla(api_url=f"http://127.0.0.1:{server.server_port}", api_key="key")
questions = [rg.LabelQuestion(name="answer", labels=["yes", "no"])]
dataset = rg.Dataset(name="own", settings=rg.Settings(fields=[rg.TextField(name="text")], questions=questions), client=client)

def record(*responses):
    return rg.Record(id="1", fields={"text": "Fever?"}, responses=list(responses), _dataset=dataset)

def sent(record):
    return [(each.values["answer"]["value"], each.status.value) for each in record.api_model().responses]

ana, bo = uuid.UUID(int=2), uuid.UUID(int=3)
written = record(
    rg.Response("answer", "yes", user_id=ana, status="submitted"), rg.Response("answer", "no", user_id=bo, status="discarded")
)
print("written", sent(written))
JsonIO.to_json([written], "records.json")
[read] = JsonIO._records_from_json("records.json")
print("file", "discarded" in open("records.json").read())
print("read", sent(record(*read.responses)))
PY
HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
written [('yes', 'submitted'), ('no', 'discarded')]
file False
read [('yes', 'draft'), ('no', 'draft')]
TEXT
