#!/usr/bin/env bash
# Expected: the client raises an error for a reply without `choices`: a gateway answered 200 with the error of the server
#   behind it, or with a page.
# Happens: the error comes back as a ChatCompletion whose `choices` and `usage` are None, and a page of HTML as a str. What
#   reads `choices[0]` breaks far from the cause, and none of the client's retries takes place.
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

REPLIES = {
    "error": ("application/json", json.dumps({"error": {"message": "overloaded", "code": 503}})),
    "page": ("text/html", "<html>Bad gateway</html>"),
}
asked = []

class Gateway(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["model"]
        asked.append(model)
        kind, text = REPLIES[model]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *about): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
for model in REPLIES:
    reply = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "May I?"}])
    print(model, type(reply).__name__, getattr(reply, "choices", "-"), getattr(reply, "error", "-"))
print(asked)
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
error ChatCompletion None {'message': 'overloaded', 'code': 503}
page str - -
['error', 'page']
TEXT
