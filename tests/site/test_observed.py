"""What Sentry and OpenTelemetry really receive, from their own packages in real processes."""

import gzip
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.processes import HOST, running_site

pytest.importorskip("sentry_sdk", reason="needs the extra observe")
pytest.importorskip("opentelemetry.instrumentation.django", reason="needs the extra observe")
pytestmark = [pytest.mark.processes, pytest.mark.plain]

SECRET = "Frau Beispiel, geboren 1950, hustet seit drei Wochen und nimmt Ramipril ein"
FAIL = f"""
import logging, sentry_sdk
patient = {SECRET!r}
try:
    int(patient)
except ValueError:
    logging.getLogger("any").exception("cannot read")
logging.getLogger("any").error("cannot read %s", patient)
sentry_sdk.flush(20)
"""


@pytest.fixture
def sink() -> Iterator[tuple[int, dict[str, list[bytes]]]]:
    """A server that keeps what is posted to it: its port, and path -> unpacked bodies."""
    received: dict[str, list[bytes]] = {}

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            received.setdefault(self.path, []).append(gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer((HOST, 0), Keep)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, received
    server.shutdown()


def test_errors_and_traces_arrive_without_texts(tmp_path: Path, sink: tuple[int, dict[str, list[bytes]]]) -> None:
    port, received = sink
    more = {
        "MHB_SENTRY_DSN": f"http://key@{HOST}:{port}/1",
        "MHB_OTEL": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{port}",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    with running_site("embedded", tmp_path, **more) as site:
        result = site.manage("shell", "-v0", "-c", FAIL)
        assert result.returncode == 0, result.stderr
        site.wait_until("an error", lambda: len(received.get("/api/1/envelope/", [])) >= 1)
        site.start_web()
        urllib.request.urlopen(f"{site.url}/accounts/login/?q=Ramipril").read()
        site.wait_until("a trace", lambda: b"accounts/login/" in b"".join(received.get("/v1/traces", [])))
    everything = b"".join(body for bodies in received.values() for body in bodies)
    assert b"ValueError" in everything
    for words in (b"Beispiel", b"Ramipril"):
        assert words not in everything
