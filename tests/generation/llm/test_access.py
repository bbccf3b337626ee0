"""Which environment variables and addresses an endpoint may use: only keys, only models."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from generation.llm.errors import KeyMissing, NotAllowed
from generation.llm.http.access import Access, parse_host, parse_keys, read_key
from generation.llm.http.transport import Transport, ssl_context
from generation.llm.simulator.server import run_in_background
from tests.generation.llm.helpers import ask, fake_endpoint

pytestmark = pytest.mark.plain
URL = "https://api.example/v1"
SECRETS = ("AWS_SECRET_ACCESS_KEY", "REDIS_PASSWORD", "DATABASE_URL", "MHB_SECRET_KEY", "POSTGRES_PASSWORD", "PATH")
NOT_KEY_VARIABLES = ("MHB_KEY_", "MHB_KEY_OWN_FILE", "OWN_KEY_FILE", "XMHB_KEY_OWN")


@pytest.mark.parametrize("name", [*SECRETS, *NOT_KEY_VARIABLES])
def test_a_variable_that_is_not_for_endpoint_keys_is_not_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "a-secret-of-the-house")
    with fake_endpoint("fine") as target:
        with pytest.raises(NotAllowed) as caught:
            ask(target.url, key_env=name, access=Access(keys={"OWN_KEY": ()}))
        assert target.headers == [], "no request was sent"
    assert "a-secret" not in str(caught.value)
    assert name in str(caught.value)


def test_listed_and_prefixed_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MHB_KEY_HOUSE", "OWN_KEY"):
        monkeypatch.setenv(name, f"the-key-in-{name}")
        with fake_endpoint("fine") as target:
            ask(target.url, key_env=name, access=Access(keys={"OWN_KEY": ()}))
            assert target.headers[0]["Authorization"] == f"Bearer the-key-in-{name}"


def test_a_key_bound_to_a_host_is_sent_nowhere_else() -> None:
    access = Access(keys=parse_keys(["OWN_KEY=api.example", "OWN_KEY=.models.example", "MHB_KEY_P=api.example:8443"]))
    for url in (URL, "https://API.example:444/v1", "https://eu.models.example/v1"):
        access.check_key("OWN_KEY", url)
    access.check_key("MHB_KEY_P", "https://api.example:8443/v1")
    elsewhere = ("https://evil.example/v1", "https://api.example.evil.example/v1", "https://models.example/v1")
    for name, urls in (("OWN_KEY", elsewhere), ("MHB_KEY_P", [URL])):
        for url in urls:
            with pytest.raises(NotAllowed):
                access.check_key(name, url)


def test_a_key_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key_file = tmp_path / "key"
    monkeypatch.setenv("MHB_KEY_OWN_FILE", str(key_file))
    with pytest.raises(KeyMissing, match="MHB_KEY_OWN_FILE"):
        read_key("MHB_KEY_OWN")
    key_file.write_text("kept-in-a-file\n")
    assert read_key("MHB_KEY_OWN") == "kept-in-a-file"
    monkeypatch.setenv("MHB_KEY_OWN", "said-aloud")
    assert read_key("MHB_KEY_OWN") == "said-aloud"


METADATA = (
    "http://169.254.169.254/latest", "http://169.254.1.1/v1", "http://[fe80::1]/v1", "http://100.100.100.200/v1",
    "http://[fd00:ec2::254]/v1", "http://2852039166/v1", "http://0xa9fea9fe/v1", "http://0251.0376.0251.0376/v1",
    "http://169.254.43518/v1", "http://[::ffff:169.254.169.254]/v1", "http://[64:ff9b::a9fe:a9fe]/v1",
    "http://[2002:a9fe:a9fe::1]/v1", "http://metadata.google.internal/v1", "http://METADATA.google.internal./v1",
    "http://0.0.0.0:11434/v1", "http://224.0.0.1/v1", "http://168.63.129.16/v1", "http://[fe80::1%25eth0]/v1",
    "http://good.example\\169.254.169.254/v1",
)  # fmt: skip
SITE_SERVICES = (
    "http://database:5432/v1", "http://broker:6379/v1", "http://web:8000/v1", "http://localhost:8000/v1",
    "http://127.0.0.1:8000/v1", "http://127.1:8000/v1", "http://2130706433:8000/v1", "http://[::1]:8000/v1",
    "http://mhb.example/v1", "https://mhb.example/v1", "https://mhb.example:8000/v1", "http://a.localhost:8000/v1",
)  # fmt: skip
MODELS = (
    "http://127.0.0.1:8010/v1", "http://localhost:11434/v1", "http://10.1.2.3:8000/v1", "http://models:8010/v1",
    "http://192.168.0.9/v1", "http://[::1]:9/v1", URL, "https://models.mhb.example/v1",
)  # fmt: skip
SITE = Access(
    services=[("database", 5432), ("broker", 6379), ("web", 8000)], site=["mhb.example", "localhost", "127.0.0.1"]
)


@pytest.mark.parametrize("url", [*METADATA, *SITE_SERVICES])
def test_metadata_and_the_sites_own_services_are_refused(url: str) -> None:
    with pytest.raises(NotAllowed):
        SITE.check_url(url)


@pytest.mark.parametrize("url", MODELS)
def test_local_private_and_public_models_are_allowed(url: str) -> None:
    SITE.check_url(url)


def test_a_list_of_hosts_allows_these_hosts_only() -> None:
    access = Access(hosts=[parse_host(host) for host in ("Models.example", "10.0.0.7:8000", "169.254.7.7", "[::1]:9")])
    for url in ("https://models.example/v1", "http://10.0.0.7:8000/v1", "http://169.254.7.7/v1", "http://[::1]:9/v1"):
        access.check_url(url)
    for url in (URL, "http://10.0.0.7/v1", "http://127.0.0.1:8010/v1", "http://169.254.169.254/v1"):
        with pytest.raises(NotAllowed):
            access.check_url(url)


@pytest.mark.parametrize("wrong", ["a b", "http://x", "x/y", "*", "x:y", "*.example", ""])
def test_a_malformed_host_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        parse_host(wrong)


@pytest.mark.parametrize("wrong", [["small"], ["A-B"], ["KEY_FILE"], ["KEY=a b"], ["KEY", "KEY=host"], ["=host"]])
def test_a_malformed_list_of_keys_is_refused(wrong: list[str]) -> None:
    with pytest.raises(ValueError, match=" "):
        parse_keys(wrong)


def fake_dns(monkeypatch: pytest.MonkeyPatch, **addresses: list[str]) -> None:
    """Resolve each name to its addresses in turn, and then to the last one."""
    original = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        known = addresses.get(str(host).removesuffix(".example"))
        if known is None:
            return original(host, port, *args, **options)
        address = known.pop(0) if len(known) > 1 else known[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_a_name_that_resolves_to_metadata_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_dns(monkeypatch, rebound=["169.254.169.254"])
    with pytest.raises(NotAllowed, match=r"Host: rebound\.example"):
        ask("http://rebound.example/v1", attempts=1)


def test_a_name_that_is_rebound_to_metadata_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: each connection goes to the address that was checked for it."""
    with fake_endpoint("fine") as target:
        port = target.url.split(":")[2].split("/")[0]
        fake_dns(monkeypatch, rebound=["127.0.0.1", "169.254.169.254"])
        assert ask(f"http://rebound.example:{port}/v1").text == "fine"
        with pytest.raises(NotAllowed):
            ask(f"http://rebound.example:{port}/v1")
        assert len(target.bodies) == 1


def test_another_name_of_the_sites_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_dns(monkeypatch, database=["10.9.8.7"], innocent=["10.9.8.7"], loop=["127.0.0.1"])
    access = Access(services=[("database.example", 5432)])
    for url in ("http://innocent.example:5432/v1", "http://10.9.8.7:5432/v1", "http://loop.example:8000/v1"):
        with pytest.raises(NotAllowed):
            ask(url, attempts=1, access=access)


def test_redirects_are_not_followed() -> None:
    requested_paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        requested_paths.append(request.path)
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")

    app = web.Application()
    app.router.add_get("/v1/file", answer)

    async def get(url: str) -> int:
        async with Transport(Access()) as client:
            return (await client.get(url, follow_redirects=True)).status_code

    with run_in_background(app) as url:
        assert asyncio.run(get(url + "/file")) == 302
    assert requested_paths == ["/v1/file"]


def write_self_signed_certificate(folder: Path) -> Path:
    """Write a self-signed certificate for localhost and its key into one file."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_format = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "own.pem").write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*key_format)
    )
    return folder / "own.pem"


@contextmanager
def tls_server(certificate: Path) -> Iterator[str]:
    """Run a TLS server with this certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None: ...

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("trusted", [False, True])
def test_a_server_with_an_untrusted_certificate_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    certificate = write_self_signed_certificate(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def get(url: str) -> int:
        async with Transport() as client:
            return (await client.get(url)).status_code

    ssl_context.cache_clear()
    try:
        with tls_server(certificate) as url:
            if trusted:
                assert [asyncio.run(get(url)) for _ in range(2)] == [200, 200]
            else:
                with pytest.raises(httpx2.ConnectTimeout, match="CERTIFICATE_VERIFY_FAILED"):
                    asyncio.run(get(url))
    finally:
        ssl_context.cache_clear()
