"""Whatever headers, queries and bodies are sent, by anybody, the answer is never a 500."""

from io import BytesIO
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.core.signals import got_request_exception, request_finished, request_started
from django.db import close_old_connections, transaction
from django.test import RequestFactory
from django.urls import reverse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mhb_site.sign_in.session_store import SessionStore
from mhb_site.wsgi import application
from tests.profile import by_profile
from tests.site.test_permissions import signed_in
from tests.site.test_permissions import world as world
from tests.site.world import World

PARAMETERS = (
    "charset*=bad''x", "charset*=''", "charset*0*=a; charset*=b", "charset*1=x; charset*=y", "charset*=a\0b''x",
    f"charset*{'9' * 5000}=x", "charset*=punycode''%ff", "charset*0*=undefined''x", f"charset*=idna''{'x' * 300}",
    "charset=\xff", "charset=hex", "boundary*=bad''x", "boundary*0=a; boundary*=b", "boundary", 'boundary="', "=", "*=",
)  # fmt: skip
KINDS = (
    "application/json",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "text/plain",
    "",
    "a/b/c",
)
BODIES = (
    b"", b"{", b"NaN", b'{"name": NaN}', b'{"name": 1e999}', b'{"name": ' + b"9" * 6000 + b"}", b"[" * 100_000,
    b'{"name": 1, "name": 2}', b"\xff", b"null", b'"x"', b"name=%00&name=%ed%a0%80", b"a=1&" * 5000, b"--x--",
    *(
        b"--x\r\n" + header + b"\r\n\r\n1\r\n--x--"
        for header in (
            b"Content-Disposition: form-data; name*=bad''x", b"Content-Disposition: form-data; name*0=a; name*=b",
            b'Content-Disposition: form-data; name="f"; filename*0=a; filename*=b', b"Content-Disposition: form-data",
            b'Content-Disposition: form-data; name="f"; filename=".."', b"x: " + b"9" * 5000,
            b'Content-Disposition: form-data; name="f"; filename="a"\r\nContent-Type: a; charset*0=b; charset*=c',
            b'Content-Disposition: form-data; name="f"\r\nContent-Transfer-Encoding: base64',
        )
    ),
)  # fmt: skip
VALUES = (
    "", "%00", "-1", "0", "9" * 30, "9" * 3500, "1e400", "nan", "-inf", "²", "١", "%ff%fe", "%zz", "%ed%a0%80", "%",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "[]", "{", "null", "'", "a:b", ",,,", "..", "mild:inf", "cD0x",
)  # fmt: skip
NAMES = (
    "page", "cursor", "page_size", "format", "sort", "rate", "weights", "selected", "version", "status", "text", "endpoint",
    "next", "show", "size", "beside", "since", "benchmark", "split", "table",
)  # fmt: skip
SESSION, CSRF = site_settings.SESSION_COOKIE_NAME, site_settings.CSRF_COOKIE_NAME
HEADERS = {
    "HTTP_ACCEPT": ("text/html; q*=bad''x", "*/*; a*0=x; a*=y", ";;", "text/html;q=nan", "\xff"),
    "HTTP_ACCEPT_LANGUAGE": ("zh;q=nan", "a" * 600, "x," * 2000, "\xff", "en\0", "zh_Hans;q=9"),
    "HTTP_RANGE": ("bytes=-", "bytes=5-1", f"bytes={'9' * 5000}-", "bytes=\u00b2-"),
    "HTTP_IF_NONE_MATCH": ("*", '"', 'W/"x', "\xff"),
    "HTTP_IF_MODIFIED_SINCE": ("x", "Thu, 31 Feb 2020 00:00:00 GMT", "Thu, 99 Foo 99999 99:99:99 GMT", "9" * 5000),
    "HTTP_COOKIE": (
        f"{SESSION}=\0",
        f"{SESSION}=\xff",
        "django_language=\0",
        "messages=x",
        ";=;",
        f'{CSRF}="\\377',
        f'{SESSION}="\\000{"a" * 31}"',
    ),
    "HTTP_HOST": ("", "a b", "localhost:99999999", "[::1", "\xff", "a" * 5000),
    "HTTP_X_FORWARDED_FOR": (",", "::ffff:1.2.3.4%x", "[::1", "\xff", "1.2.3.4:99999999"),
    "HTTP_X_FORWARDED_PROTO": ("\xff",),
    "HTTP_AUTHORIZATION": ("Bearer", "Bearer a b", "Bearer \xff", "Bearer mhb_\0", "Basic x", f"Bearer mhb_{'a' * 64}"),
    "HTTP_ORIGIN": ("null", "http://[", "\xff"),
    "HTTP_REFERER": ("http://[", "\xff"),
    "HTTP_HX_CURRENT_URL": ("http://[", "%ff"),
    "HTTP_IDEMPOTENCY_KEY": ("", "\0", "x" * 500),
    "CONTENT_LENGTH": ("-1", "x", "²", "9" * 5000),
}
PATHS = (
    "/", "/health/", "/accounts/login/", "/i18n/setlang/", "/nowhere/", "/public/releases/own/", "/review/cases/",
    "/generation/samples/", "/generation/endpoints/", "/generation/imports/", "/evaluation/runs/", "/static/app.css",
    "/generation/samples/" + "9" * 30 + "/", "/generation/images/%00/", "/admin/review/user/", "/api/v1/nowhere/",
    *(reverse(f"api:{name}") for name in ("samples", "cases", "runs", "batches", "imports", "endpoints", "token", "me")),
)  # fmt: skip

headers = st.dictionaries(st.sampled_from(sorted(HEADERS)), st.integers(0, 9), max_size=2).map(
    lambda chosen: {name: HEADERS[name][index % len(HEADERS[name])] for name, index in chosen.items()}
)
content_types = st.one_of(
    st.sampled_from(KINDS), st.builds("{}; {}".format, st.sampled_from(KINDS), st.sampled_from(PARAMETERS))
)
queries = st.lists(st.builds("{}={}".format, st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=3).map("&".join)
PART = (
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="a"\r\nContent-Type: a; b*0=c; b*=d\r\n\r\n1\r\n--x--'
)


@pytest.fixture
def faults(db: None) -> Any:
    """The exceptions that end in a 500; the test's connection stays open after a request."""
    caught: list[str] = []

    def catch(request: Any = None, **_signal: Any) -> None:
        caught.append(f"{request.method} {request.get_full_path()}")

    got_request_exception.connect(catch)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield caught
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    got_request_exception.disconnect(catch)


@pytest.mark.parametrize("name", ["anonymous", "adela"])
def test_no_request_of_anybody_ends_in_a_500(world: World, faults: list[str], name: str) -> None:
    cookies = "; ".join(f"{key}={morsel.value}" for key, morsel in signed_in(world, name).cookies.items())
    statuses: set[int] = set()

    @settings(max_examples=by_profile(400, 4000), suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(PATHS),
        st.sampled_from(["GET", "POST", "PUT"]),
        queries,
        content_types,
        headers,
        st.sampled_from(BODIES),
    )
    # The error page of an address that does not exist read the body again.
    @example("/nowhere/", "POST", "", "multipart/form-data; boundary=x", {}, PART)
    @example("/", "POST", "", "multipart/form-data; boundary=x", {"HTTP_HOST": "a b"}, PART)
    @example("/i18n/setlang/", "POST", "", "", {"HTTP_ACCEPT": "text/html; q*=bad''x"}, b"")
    def send(path: str, method: str, query: str, kind: str, odd: dict[str, str], body: bytes) -> None:
        environ = {
            **RequestFactory().get("/").environ,
            "PATH_INFO": path,
            "REQUEST_METHOD": method,
            "QUERY_STRING": query.encode().decode("latin-1"),
            "CONTENT_TYPE": kind,
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_X_CSRFTOKEN": "x" * 32,
            "wsgi.input": BytesIO(body),
            **odd,
            "HTTP_COOKIE": "; ".join(filter(None, [cookies, f"{CSRF}=" + "x" * 32, odd.get("HTTP_COOKIE")])),
        }
        with transaction.atomic():
            response = application(environ, lambda _status, _headers: None)  # type: ignore[arg-type]
            response.close()
            transaction.set_rollback(True)
        statuses.add(response.status_code)
        assert response.status_code < 500
        assert faults == []

    send()
    assert {200, 400, 404, 405, 414, 415} <= statuses, "the requests provoke all kinds of answers"


@pytest.mark.plain
def test_what_can_be_no_key_of_a_session_is_not_looked_up() -> None:
    assert SessionStore("a1" * 16).session_key == "a1" * 16
    for key in ("\0" + "a" * 31, "a" * 31 + "'", "a" * 7):
        assert SessionStore(key).session_key is None


@pytest.mark.parametrize("parameter", [item for item in PARAMETERS if "*" in item and item != "*="])
@pytest.mark.parametrize("path", ["/api/v1/endpoints/", "/accounts/login/"])
def test_parameters_of_content_type_that_cannot_be_parsed_are_refused(
    faults: list[str], path: str, parameter: str
) -> None:
    for kind in ("application/json", "multipart/form-data; boundary=x"):
        environ = RequestFactory().generic("POST", path, b"{}", content_type=kind).environ
        environ["CONTENT_TYPE"] = f"{kind}; {parameter}"
        response = application(environ, lambda _status, _headers: None)  # type: ignore[arg-type]
        assert response.status_code in (400, 415)
    assert faults == []
