#!/usr/bin/env bash
# Expected: a stream that ends before its last event, as where a server stops amid an answer behind a proxy that closes the
#   connection in order, raises an error.
# Happens: the loop over the events ends as usual, and `get_final_completion` gives the half answer as the final one: "Give
#   5 mg, but not if". Only its `finish_reason`, None, tells; its type allows no None.
# Version: openai 3.57.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openai==3.57.0
cat > run.py <<'PY'
import http.server
import json
import threading

from openai import OpenAI

class Stopping(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for text in ("Give 5 mg,", " but not if"):
            choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
    def log_message(self, *about): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stopping)
threading.Thread(target=server.serve_forever, daemon=True).start()
completions = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none").chat.completions
ask = {"model": "m", "messages": [{"role": "user", "content": "May I?"}]}
print("events:", "".join(event.choices[0].delta.content for event in completions.create(stream=True, **ask)))
with completions.stream(**ask) as stream:
    [choice] = stream.get_final_completion().choices
print("final:", choice.message.content, choice.finish_reason)
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
events: Give 5 mg, but not if
final: Give 5 mg, but not if None
TEXT
