#!/usr/bin/env bash
# Expected: a recorded reply is played for the request that it answered; one with another prompt is asked, or refused,
#   as for another address.
# Happens: the body of a request is not compared: replies come in the order of the recording. A test, or a run that is
#   repeated from it, that asks its questions in another order gets each answer to another one, and a new question gets
#   one too.
# Version: vcrpy 9.4.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check vcrpy==9.4.2
cat > run.py <<'PY'
import http.server
import threading
import urllib.request

import vcr


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        question = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"about " + question)

    def log_message(self, *_parts):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()


def ask(question):
    request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}/v1", data=question.encode())
    with urllib.request.urlopen(request) as reply:
        return f"{question}: {reply.read().decode()}"


with vcr.use_cassette("replies.yaml"):
    print(ask("aspirin"), ask("warfarin"), sep=", ")
server.shutdown()
with vcr.use_cassette("replies.yaml"):
    print(ask("warfarin"), ask("heparin"), sep=", ")
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
aspirin: about aspirin, warfarin: about warfarin
warfarin: about aspirin, heparin: about warfarin
TEXT
