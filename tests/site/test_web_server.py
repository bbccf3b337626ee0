"""The web servers of both installations with clients that are slow, silent, greedy or dishonest."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from wsgiref.simple_server import demo_app, make_server

import pytest
import yaml
from django.test import override_settings

from bench import servers
from mhb_site.checks import check_proxies
from mhb_site.server import children
from mhb_site.server.bodies import OPEN_BODIES, UPLOADS
from tests.processes import HOST, ROOT, Site, running_site
from tests.profile import installed

pytestmark = [pytest.mark.processes, pytest.mark.plain]

SLOW = {
    "send nothing": b"",
    "stop in the headers": b"GET /health/ HTTP/1.1\r\nHost: localhost\r\n",
    "stop in the body": b"POST /health/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\nx",
    "stop in a chunk": b"POST /health/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nx",
}
DRIP = {"stop in the headers": b"X: y\r\n", "stop in the body": b"x", "stop in a chunk": b"x"}
CLIENTS = 64  # of each kind; a process has 4 or 8 threads
LARGE_FILE = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"


def connect(port: int, data: bytes = b"", *, window: int = 0) -> socket.socket:
    """Connect and send some data. `window` limits the receive buffer, in bytes."""
    client = socket.socket()
    if window:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    client.settimeout(10)
    client.connect((HOST, port))
    client.sendall(data)
    return client


def get(port: int, path: str = "/", **headers: str) -> http.client.HTTPResponse:
    """Return the response to a GET.

    The timeout is long, because a busy machine may take a while to start the server.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    connection.request("GET", path, headers={"Host": "localhost", **headers})
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
def nginx(folder: Path, web_port: int) -> Iterator[int]:
    """Run nginx with the configuration of docker-compose.yml in front of `web_port`."""
    with installed():
        program = servers.nginx()
    port = servers.free_port()
    site = (ROOT / "mhb_site" / "server" / "nginx.conf").read_text()
    site = site.replace("listen 8080", f"listen {HOST}:{port}").replace("http://web:8000", f"http://{HOST}:{web_port}")
    folders = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{'user root;' if os.geteuid() == 0 else ''}"
        f"pid {folder}/pid; daemon off; error_log {folder}/errors; events {{ worker_connections 2048; }}"
        f"http {{ access_log off; {folders} {site} }}"
    )
    process = subprocess.Popen([program, "-c", str(folder / "nginx.conf"), "-e", f"{folder}/errors"])
    try:
        assert children.wait_for_port(HOST, port)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def gunicorn(site: Site) -> Iterator[int]:
    """Run gunicorn as docker-compose.yml does, with one process."""
    port = servers.free_port()
    site.children.start("gunicorn", [sys.executable, "-m", "gunicorn", "mhb_site.wsgi", "--bind", f"{HOST}:{port}"])
    assert children.wait_for_port(HOST, port)
    yield port


def stand_slow_clients(port: int) -> None:
    """Many times more clients than threads are silent, send bit by bit or do not read."""
    assert get(port, "/health/").status == 200
    with ExitStack() as stack:
        slow = {name: [stack.enter_context(connect(port, data)) for _ in range(CLIENTS)] for name, data in SLOW.items()}
        for _ in range(CLIENTS):
            request = f"GET {LARGE_FILE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            stack.enter_context(connect(port, request * 8, window=2048))
        for _ in range(3):
            for name, piece in DRIP.items():
                for client in slow[name]:
                    with suppress(ConnectionError):  # nginx refuses a visitor's chunks at once
                        client.send(piece)
            assert get(port, "/health/").status == 200
            assert get(port, "/accounts/login/").status == 200


def test_slow_clients_do_not_stop_the_embedded_site(tmp_path: Path) -> None:
    with running_site("embedded", tmp_path) as site:
        site.start_web()
        stand_slow_clients(site.port)


def test_slow_clients_do_not_stop_gunicorn_behind_nginx(tmp_path: Path) -> None:
    with running_site("embedded", tmp_path) as site, gunicorn(site) as web, nginx(tmp_path, web) as port:
        stand_slow_clients(port)


SIGN_IN = """
import json
from django.conf import settings
from django.test import Client
from knox.models import AuthToken
from review.models import User
from review.rules.permissions import UserRole
headers = {"nobody": {"A": "b"}, "guessed": {"Authorization": "Bearer mhb_guessed", "Cookie": "guessed=guessed"}}
for role in UserRole:
    user = User.objects.create_user(f"uploader-{role}", password="quite-a-long-one", role=role)
    client = Client()
    client.force_login(user)
    session = settings.SESSION_COOKIE_NAME
    headers[f"{role} by session"] = {"Cookie": f"{session}={client.cookies[session].value}"}
    headers[f"{role} by token"] = {"Authorization": f"Bearer {AuthToken.objects.create(user)[1]}"}
closed = User.objects.create_user("closed", password="quite-a-long-one", role="admin", is_active=False)
headers["closed by token"] = {"Authorization": f"Bearer {AuthToken.objects.create(closed)[1]}"}
(settings.ENV.data_dir / "headers.json").write_text(json.dumps(headers))
"""
REFUSED = {
    "no request": (b"\x16\x03\x01 hello\r\n\r\n", (400,)),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", (400,)),
    "long line": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", (414, 431)),
    "many headers": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 50_000 + b"\r\n", (400, 431)),
    "large body": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000000\r\n\r\n", (413,)),
    "wrong chunk": (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", (400, 403)),
    "unknown coding": (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", (501,)),
}


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE")
OTHERS = ("/", "/accounts/login/", "/api/v1/auth/token/", "/generation/sources/x/", "/generation/sources")
LENGTH = 200_000_000
REFUSALS = {"400", "401", "403", "404", "405", "413", "429"}


def start_upload(
    port: int, method: str, path: str, headers: dict[str, str], wait: float = 0.5, length: int = LENGTH
) -> tuple[socket.socket, str]:
    """Announce a large body and send a little of it. Returns the open connection and the status,
    "" if the server wants the rest.
    """
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}"]
    lines += ["Content-Type: multipart/form-data; boundary=x"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    client = connect(port, "\r\n".join([*lines, "", "x" * 10_000]).encode())
    client.settimeout(wait)
    try:
        return client, client.recv(12)[9:].decode()
    except TimeoutError:
        return client, ""
    except ConnectionError:
        return client, "cut"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[int, int], dict[str, dict[str, str]]]]:
    """The ports of waitress and of nginx, and the headers of somebody of each role."""
    folder = tmp_path_factory.mktemp("guarded")
    with running_site("embedded", folder) as site, gunicorn(site) as web, nginx(folder, web) as proxy:
        site.start_web()
        site.manage("shell", "-c", SIGN_IN)
        yield (site.port, proxy), json.loads((folder / "headers.json").read_text())


@pytest.mark.parametrize("server", ["waitress", "nginx"])
def test_large_bodies_are_refused_before_they_arrive(guarded: Any, server: str) -> None:
    """Whatever the method, of all but the people who may send files to that address."""
    ports, people = guarded
    port = ports[server == "nginx"]
    for name, headers in people.items():
        for path in (*UPLOADS, *OTHERS):
            for method in METHODS:
                is_taken = name.startswith("admin") and method == "POST" and path in UPLOADS
                client, status = start_upload(port, method, path, headers, wait=0.5 if is_taken else 20)
                client.close()
                assert (status == "") if is_taken else (status in REFUSALS), (name, method, path, status)


@pytest.mark.parametrize("server", ["waitress", "nginx"])
def test_no_long_body_of_a_visitor_is_kept(guarded: Any, server: str) -> None:
    """Far below the limit of a form: many connections would fill the disk."""
    ports, people = guarded
    for name in ("nobody", "guessed", "closed by token", "physician by session", "physician by token"):
        for path in OTHERS:
            is_taken = name.startswith("physician")
            wait = 0.5 if is_taken else 20
            client, status = start_upload(ports[server == "nginx"], "POST", path, people[name], wait, length=200_000)
            client.close()
            assert (status == "") if is_taken else (status in REFUSALS), (name, path, status)


@pytest.mark.parametrize("server", ["waitress", "nginx"])
@pytest.mark.parametrize(
    ("role", "paths", "length"),
    [("admin", ("/api/v1/imports/", "/generation/sources/"), LENGTH), ("physician", ("/api/v1/me/", "/"), 200_000)],
)
def test_one_person_sends_a_few_long_bodies_at_once(
    guarded: Any, server: str, role: str, paths: tuple[str, str], length: int
) -> None:
    """By whatever credentials; one that ends makes room."""
    ports, people = guarded
    port = ports[server == "nginx"]
    kinds = [people[f"{role} by session"], people[f"{role} by token"]]
    with ExitStack() as stack:
        for number in range(OPEN_BODIES):
            client, status = start_upload(port, "POST", paths[0], kinds[number % 2], length=length)
            stack.enter_context(client)
            assert status == ""
        for headers in kinds:
            client, status = start_upload(port, "POST", paths[1], headers, wait=20, length=length)
            client.close()
            assert status in ("413", "429")
        assert get(port, "/accounts/sessions/", **kinds[0]).status == 200
    for _ in range(50):  # until the server has seen that they were cut off
        client, status = start_upload(port, "POST", paths[0], kinds[1], wait=0.2, length=length)
        client.close()
        if status == "":
            return
    pytest.fail("no body is taken after the others ended")


def test_who_cannot_be_asked_about_a_long_body_is_asked_to_try_again(tmp_path: Path) -> None:
    with nginx(tmp_path, servers.free_port()) as port:  # nobody answers there
        for path in ("/", "/api/v1/imports/"):
            client = connect(
                port, f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n".encode()
            )
            with client, client.makefile("rb") as answer:
                assert answer.readline().split()[1] == b"503"
                assert b"Retry-After: 5\r\n" in answer.readlines()[:10]


@pytest.mark.parametrize("server", ["waitress", "nginx"])
def test_those_who_may_send_files_do_and_others_see_the_page_of_signing_in(guarded: Any, server: str) -> None:
    ports, people = guarded
    port = ports[server == "nginx"]
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    headers = {"Host": "localhost", **people["admin by token"], "Content-Type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/api/v1/imports/", b"x" * 7_000_000, headers)
    answer = connection.getresponse()
    assert answer.status == 400, answer.read()[:300]
    assert get(port, "/generation/sources/").headers["Location"] == "/accounts/login/?next=/generation/sources/"
    assert get(port, "/api/v1/imports/", **people["physician by token"]).status == 403


def test_the_proxy_has_the_addresses_and_the_limit_of_the_site() -> None:
    conf = (ROOT / "mhb_site" / "server" / "nginx.conf").read_text()
    [alternatives] = re.findall(r"location ~ \^\(/\(\?:([^)]*)\)/\)\$", conf)
    assert {f"/{path}/" for path in alternatives.split("|")} == set(UPLOADS)
    assert conf.count(f"limit_conn mhb_bodies {OPEN_BODIES};") == 2


def test_malformed_requests_are_refused(tmp_path: Path) -> None:
    with running_site("embedded", tmp_path) as site, gunicorn(site) as web, nginx(tmp_path, web) as proxy:
        site.start_web()
        for port in (site.port, proxy):
            for kind, (data, statuses) in REFUSED.items():
                with connect(port) as client:
                    try:
                        client.sendall(data)
                    except ConnectionError:
                        continue  # closed before all of it was sent
                    line = read_until_closed(client).partition(b"\r\n")[0]
                assert any(f" {status} ".encode() in line for status in statuses), (kind, line)
            # A long address is refused by the site, in its own words.
            assert get(port, "/" + "a" * 8_000).status == 414
            connection = http.client.HTTPConnection(HOST, port, timeout=60)
            for method in ("HEAD", "GET"):
                connection.request(method, "/accounts/login/", headers={"Host": "localhost"})
                assert bool(connection.getresponse().read()) is (method == "GET")


def test_a_client_cannot_forge_its_address(tmp_path: Path) -> None:
    """nginx appends the address it sees; headers with an underscore are dropped."""
    forged = {"X-Forwarded-For": "203.0.113.7", "X_Forwarded_For": "1.1.1.1", "Remote_Addr": "1.1.1.1"}
    with make_server(HOST, 0, demo_app) as echo:
        threading.Thread(target=echo.serve_forever).start()
        try:
            with nginx(tmp_path, echo.server_port) as port:
                seen = get(port, **forged).read().decode()
        finally:
            echo.shutdown()
    assert "HTTP_X_FORWARDED_FOR = '203.0.113.7, 127.0.0.1'" in seen
    assert "1.1.1.1" not in seen
    assert "HTTP_X_FORWARDED_PROTO = 'http'" in seen


def test_no_address_of_a_request_becomes_headers_of_the_question_about_it(tmp_path: Path) -> None:
    """Decoded, an address may hold lines: headers, and the whole of another request."""
    lines = quote("\r\nX-Forwarded-For: 1.2.3.4\r\nConnection: keep-alive\r\n\r\nGET /another HTTP/1.1\r\nX: ")
    asked = []

    def echo(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/api/v1/me/upload-right/":
            asked.append((environ["HTTP_X_UPLOAD_TO"], environ["HTTP_X_FORWARDED_FOR"]))
        start_response("200 OK", [])
        return []

    with make_server(HOST, 0, echo) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            with nginx(tmp_path, server.server_port) as port:
                for number, path in enumerate((f"/any{lines}", "/api/v1/imports/", f"/api/v1/imports/{lines}"), 1):
                    client, _status = start_upload(port, "POST", path, {}, 2, length=100_000)
                    end = time.monotonic() + 20
                    while len(asked) < number and time.monotonic() < end:
                        time.sleep(0.05)
                    client.close()
        finally:
            server.shutdown()
    assert asked == [("/", HOST), ("/api/v1/imports/", HOST), ("/", HOST)]
    assert "$uri" not in (ROOT / "deploy" / "nginx" / "mhb.conf").read_text()


def test_gunicorn_without_a_proxy_is_warned_of() -> None:
    for embedded, proxies, warned in ((True, 0, False), (False, 0, True), (False, 1, False)):
        with override_settings(MHB_EMBEDDED=embedded, MHB_TRUSTED_PROXIES=proxies):
            assert bool(check_proxies()) is warned


def test_containers_publish_ports_to_this_machine_only() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("${MHB_BIND:-127.0.0.1}:") for port in published)
    assert "ports" not in services["web"], "gunicorn is reached through the proxy only"
