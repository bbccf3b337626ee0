"""The real web server with clients that are slow, silent, greedy or dishonest."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from bench import servers
from mhb_site.server import children, web_server
from mhb_site.server.web_server import MAX_HEADERS
from tests.processes import HOST, ROOT, running_site

pytestmark = [pytest.mark.processes, pytest.mark.plain]

SLOW = {
    "send nothing": b"",
    "stop in the headers": b"GET /health/ HTTP/1.1\r\nHost: localhost\r\n",
    "stop in the body": b"POST /health/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\nx",
    "stop in a chunk": b"POST /health/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nx",
}
DRIP = {"stop in the headers": b"X: y\r\n", "stop in the body": b"x", "stop in a chunk": b"x"}
CLIENTS = 64  # of each kind; the demo has 8 threads


def connect(port: int, data: bytes = b"", *, window: int = 0) -> socket.socket:
    """Connect and send some data. `window` limits the receive buffer, in bytes."""
    client = socket.socket()
    if window:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    client.settimeout(10)
    client.connect((HOST, port))
    client.sendall(data)
    return client


def exchange(port: int, data: bytes) -> bytes:
    """Send some data and return all that the server sends until it closes the connection."""
    with connect(port, data) as client:
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def get(port: int, path: str = "/", **headers: str) -> http.client.HTTPResponse:
    """Return the response to a GET.

    The timeout is long, because a busy machine may take a while to start the server.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def read_until_closed(client: socket.socket) -> bytes:
    """Return all that a client receives before the server closes or cuts the connection."""
    received = b""
    try:
        while chunk := client.recv(1 << 16):
            received += chunk
    except ConnectionError:
        pass
    return received


@contextmanager
def impatient_server(*arguments: str) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Run the server with short timeouts and low limits (tests.site.impatient_server)."""
    port = servers.free_port()
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "tests.site.impatient_server",
        "--worker-class",
        "tests.site.impatient_server.BufferingWorker",
    ]
    process = subprocess.Popen(
        [*command, "--bind", f"{HOST}:{port}", *arguments], cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE
    )
    try:
        assert children.wait_for_port(HOST, port)
        yield port, process
    finally:
        children.kill_group(process.pid)
        process.wait()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with impatient_server() as (port, _process):
        yield port


def test_slow_clients_do_not_stop_the_site(tmp_path: Path) -> None:
    """Many times more clients than threads are silent, send bit by bit or do not read."""
    with running_site("embedded", tmp_path) as site, ExitStack() as stack:
        site.start_web()
        assert get(site.port, "/health/").status == 200
        file = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
        read = f"GET {file} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        slow = {
            name: [stack.enter_context(connect(site.port, data)) for _ in range(CLIENTS)] for name, data in SLOW.items()
        }
        for _ in range(CLIENTS):
            stack.enter_context(connect(site.port, read * 8, window=2048))
        for _ in range(3):
            for name, piece in DRIP.items():
                for client in slow[name]:
                    client.send(piece)
            assert get(site.port, "/health/").status == 200
            assert get(site.port, "/accounts/login/").status == 200


@pytest.mark.parametrize("kind", SLOW)
def test_a_client_that_is_slow_to_send_is_cut_off(port: int, kind: str) -> None:
    with connect(port, SLOW[kind]) as client:
        received = read_until_closed(client)
    assert received.partition(b"\r\n")[0] == (b"" if kind == "send nothing" else b"HTTP/1.0 408 Request Timeout")


@pytest.mark.parametrize("kind", DRIP)
def test_a_client_that_sends_bit_by_bit_is_cut_off(port: int, kind: str) -> None:
    with connect(port, SLOW[kind]) as client:
        end = time.monotonic() + 10
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                client.send(DRIP[kind])
                time.sleep(0.05)
        assert time.monotonic() < end, "it was never cut off"


def test_a_client_that_is_slow_to_read_is_cut_off(port: int) -> None:
    with connect(port, b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n", window=2048) as client:
        time.sleep(3)
        assert len(read_until_closed(client)) < 20 * 2**20


def test_a_steady_client_is_not_cut_off(port: int) -> None:
    """A client that keeps sending may take longer than a silent one."""
    with connect(
        port, b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n"
    ) as client:
        for _ in range(10):
            client.send(b"x" * 2000)
            time.sleep(0.2)
        assert b'"body": 20000' in read_until_closed(client)


def test_the_slowest_client_makes_room_for_a_new_one(port: int) -> None:
    """With too many connections, nobody is turned away: the oldest silent ones are closed."""
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(port, SLOW["stop in the headers"])) for _ in range(150)]
        assert get(port).status == 200
        assert read_until_closed(silent[0]) == b""


def test_pipelined_requests_are_answered_one_at_a_time(port: int) -> None:
    """A client that sends a hundred requests but reads none holds one response and is cut off."""
    with connect(port, b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100, window=2048) as client:
        time.sleep(3)
        assert read_until_closed(client).count(b"HTTP/1.1 200 OK") == 1
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    responses = exchange(port, request * 3 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert responses.count(b"HTTP/1.1 200 OK") == 4


REFUSED = {
    "no request": (b"\x16\x03\x01 hello\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "folded by hand": (b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
    "long line": (b"GET /" + b"a" * MAX_HEADERS + b" HTTP/1.1\r\n\r\n", 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MAX_HEADERS // 6) + b"\r\n", 431),
    "large body": (b"POST / HTTP/1.1\r\nContent-Length: 2000000000\r\n\r\n", 413),
    "wrong chunk": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "unknown coding": (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_are_short_and_name_no_server(port: int, kind: str) -> None:
    data, status = REFUSED[kind]
    with connect(port, data) as client:
        head, _, body = read_until_closed(client).partition(b"\r\n\r\n")
    assert f" {status} ".encode() in head.splitlines()[0]
    assert len(body) < 50
    for name in (b"server:", b"waitress", b"gunicorn", b"python", b"generated", b"<html"):
        assert name not in (head + body).lower()


def test_the_application_sees_the_peer_and_what_proxies_say(port: int) -> None:
    forwarded = {
        "X-Forwarded-For": "203.0.113.7, 10.0.0.1",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "a.example",
    }
    forged = {
        "Remote-Addr": "1.1.1.1",
        "Remote_Addr": "1.1.1.1",
        "X_Forwarded_For": "1.1.1.1",
        "Forwarded": "for=1.1.1.1",
    }
    response = get(port, **forwarded, **forged)
    environ = json.load(response)
    assert response.getheader("Server") is None
    assert environ["REMOTE_ADDR"] == "127.0.0.1"
    assert environ["HTTP_X_FORWARDED_FOR"] == forwarded["X-Forwarded-For"]
    assert environ["HTTP_X_FORWARDED_PROTO"] == "https"
    assert environ["wsgi.url_scheme"] == "http"  # left to Django: SECURE_PROXY_SSL_HEADER


def test_a_long_url_reaches_the_application(port: int) -> None:
    """So that the site answers with its own 414."""
    assert get(port, "/" + "a" * 30_000).status == 200


def test_head_has_no_body(port: int) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    for method in ("HEAD", "GET"):
        connection.request(method, "/")
        response = connection.getresponse()
        assert response.status == 200
        assert bool(response.read()) is (method == "GET")


def test_threads_take_turns(port: int) -> None:
    """However many requests arrive, only a limited number computes at the same time."""
    with ThreadPoolExecutor(16) as executor:
        responses = list(executor.map(lambda _: json.loads(get(port, "/brief").read()), range(32)))
    assert max(response["active"] for response in responses) == web_server.TURNS


def test_no_request_waits_long_for_a_turn() -> None:
    """Long requests that hold all turns do not block the others."""
    with impatient_server() as (port, _process), ExitStack() as stack:
        for _ in range(web_server.TURNS):
            stack.enter_context(connect(port, b"GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        time.sleep(0.3)
        assert json.loads(get(port).read())["active"] == web_server.TURNS + 1


def test_a_stopping_server_answers_the_requests_it_has_received() -> None:
    with impatient_server() as (port, process), ExitStack() as stack:
        idle = stack.enter_context(connect(port))
        waiting = [
            stack.enter_context(connect(port, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")) for _ in range(12)
        ]
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        for client in waiting:
            assert read_until_closed(client).startswith(b"HTTP/1.1 200 OK")
        assert read_until_closed(idle) == b""
        assert process.wait(10) == 0


def test_a_reload_loses_no_request() -> None:
    with impatient_server("--workers", "2") as (port, process):
        for turn in range(60):
            if turn == 10:
                process.send_signal(signal.SIGHUP)
            assert get(port).status == 200
            time.sleep(0.02)


def test_orphaned_workers_exit() -> None:
    """When the master is killed, its workers notice it and release the port."""
    with impatient_server("--workers", "2") as (port, process):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        end = time.monotonic() + 10
        while not children.port_is_free(HOST, port):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_open_files_suffice_for_all_connections() -> None:
    assert 3 * web_server.MAX_CONNECTIONS < web_server.MAX_OPEN_FILES
    assert web_server.MAX_HEADERS > 32_000, "more than the site itself refuses as too long"


def test_gunicorn_uses_our_worker_class_by_itself() -> None:
    """However the site is started (Dockerfile, docker-compose.yml, by hand)."""
    command = [sys.executable, "-m", "gunicorn", "mhb_site.wsgi", "--check-config", "--print-config"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "BufferingWorker" in next(line for line in output.splitlines() if line.startswith("worker_class "))


def test_containers_publish_ports_to_this_machine_only() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("${MHB_BIND:-127.0.0.1}:") for port in published)
