"""The environment: wrong settings stop the start, with one sentence for each of them."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from mhb_site import env

pytestmark = pytest.mark.plain
KEY = "k" * 40
POSTGRES = "postgresql://mhb@db.example/mhb"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove all variables of the site except those that a test sets."""
    for name in list(os.environ):
        if name.startswith("MHB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MHB_DATA_DIR", str(tmp_path / "data"))


def refusal(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """Return the message with which these variables are refused."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(env.WrongEnvironment) as refused:
        env.read_environment()
    return str(refused.value.code)


def test_without_settings_the_site_is_embedded(tmp_path: Path) -> None:
    environment = env.read_environment()
    assert environment.embedded
    assert not environment.debug
    assert environment.database()["ENGINE"] == "mhb_site.sqlite"
    assert environment.database()["NAME"] == tmp_path / "data" / "mhb.sqlite3"
    assert environment.database()["OPTIONS"]["transaction_mode"] == "IMMEDIATE"  # type: ignore[index]
    assert "*" not in environment.allowed_hosts


def test_the_embedded_secret_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    secret = env.read_environment().secret()
    assert len(secret) >= 32
    assert env.read_environment().secret() == secret
    assert (tmp_path / "data" / "secret_key").stat().st_mode & 0o077 == 0


def test_the_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """Of a new site, and of one that an earlier version left open; not of /tmp and its like."""
    folder = tmp_path / "data"
    env.read_environment()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    env.read_environment()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o1777)
    env.read_environment()
    assert folder.stat().st_mode & 0o1777 == 0o1777


def test_nothing_that_a_site_writes_is_readable_by_others(tmp_path: Path) -> None:
    """The database, its journal, the queue, uploads, the secret and a backup."""
    environment = {**os.environ, "MHB_DATA_DIR": str(tmp_path / "data")}
    backup = tmp_path / "backup"
    backup.mkdir(mode=0o755)
    for arguments in (["migrate", "-v0"], ["backup", str(backup)]):
        command = [sys.executable, str(env.ROOT / "manage.py"), *arguments]
        old = os.umask(0o022)
        try:
            subprocess.run(command, env=environment, check=True, capture_output=True)
        finally:
            os.umask(old)
    for folder in (tmp_path / "data", backup):
        written = [folder, *folder.rglob("*")]
        assert len(written) > 5
        assert not [path for path in written if path.stat().st_mode & 0o077]


def test_production_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHB_DATABASE_URL", POSTGRES)
    monkeypatch.setenv("MHB_SECRET_KEY", KEY)
    monkeypatch.setenv("MHB_ALLOWED_HOSTS", "mhb.example, www.mhb.example ,")
    monkeypatch.setenv("MHB_TRUSTED_ORIGINS", "https://mhb.example")
    monkeypatch.setenv("MHB_HTTPS", "true")
    environment = env.read_environment()
    assert not environment.embedded
    assert environment.secret() == KEY
    assert (environment.database()["HOST"], environment.database()["NAME"]) == ("db.example", "mhb")
    assert "-c jit=off" in environment.database()["OPTIONS"]["options"]  # type: ignore[index]
    monkeypatch.setenv("MHB_DATABASE_POOLER", "true")
    behind_a_pooler = env.read_environment().database()
    assert behind_a_pooler["DISABLE_SERVER_SIDE_CURSORS"]
    assert "options" not in behind_a_pooler["OPTIONS"], "PgBouncer refuses it"  # type: ignore[operator]
    assert environment.allowed_hosts == ["mhb.example", "www.mhb.example"]
    assert environment.https


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("MHB_DATABASE_URL", "mysql://mhb@db/mhb", "postgresql://"),
        ("MHB_DATABASE_URL", "mhb", "postgresql://"),
        ("MHB_REDIS_URL", "http://redis", "redis://"),
        ("MHB_REDIS_URL", "redis://:a#b", "percent-encode"),
        ("MHB_REDIS_URL", "redis://redis:70000", "percent-encode"),
        ("MHB_DATABASE_URL", "postgresql://mhb:a/b", "percent-encode"),
        ("MHB_TRUSTED_ORIGINS", "mhb.example", "must be https://"),
        ("MHB_TRUSTED_ORIGINS", "https://mhb.example/mhb", "without a path"),
        ("MHB_ALLOWED_HOSTS", '"mhb.example"', "is not a host"),
        ("MHB_ALLOWED_HOSTS", "mhb.example www.mhb.example", "is not a host"),
        ("MHB_ALOWED_HOSTS", "mhb.example", "Is it MHB_ALLOWED_HOSTS?"),
        ("MHB_SECOND_FACTOR_ROLE", "admin", "Is it MHB_SECOND_FACTOR_ROLES?"),
        ("MHB_SUB_PATH", "https://mhb.example/mhb", "must be a path"),
        ("MHB_LEASE_SECONDS", "soon", "integer"),
        ("MHB_LEASE_SECONDS", "4", "greater than or equal to 5"),
        ("MHB_HTTPS", "perhaps", "boolean"),
        ("MHB_TRUSTED_PROXIES", "-1", "number of proxies"),
        ("MHB_TRUSTED_PROXIES", "proxy.example", "number of proxies"),
        ("MHB_TRUSTED_PROXIES", "10.0.0.1/8", "number of proxies"),
        ("MHB_DEBUG", "2", "boolean"),
        ("MHB_REVIEW_LEASE_MINUTES", "", "integer"),
        ("MHB_REVIEW_LEASE_MINUTES", "0", "greater than or equal to 1"),
        ("MHB_DATABASE_POOL", "0", "greater than or equal to 1"),
        ("MHB_RELEASES_PER_HOUR", "0", "greater than or equal to 1"),
        ("MHB_DATA_DIR", "/dev/null/data", "cannot be created"),
        ("MHB_DATABASE_POOL", "many", "integer"),
    ],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str) -> None:
    message = refusal(monkeypatch, **{"MHB_SECRET_KEY": KEY, name: value})
    assert message.startswith("Wrong setting. ")
    assert name in message
    assert reason in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("password", ["a#b", "a?b", "a/b", "a@b", "a#@/?:[", "50%#", "plain", "a%23b"])
def test_a_password_may_be_written_raw(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setenv("MHB_SECRET_KEY", KEY)
    monkeypatch.setenv("MHB_HTTPS", "false")
    monkeypatch.setenv("MHB_DATABASE_URL", f"postgresql://mhb:{password}@db.example:5433/mhb?sslmode=require")
    monkeypatch.setenv("MHB_REDIS_URL", f"redis://:{password}@redis.example:6380/1")
    environment = env.read_environment()
    meant = password.replace("%23", "#")
    database = environment.database()
    assert (database["PASSWORD"], database["HOST"], database["PORT"]) == (meant, "db.example", 5433)
    assert unquote(urlsplit(environment.redis_url).password or "") == meant
    assert urlsplit(environment.redis_url).port == 6380


def test_hosts_origins_and_the_sub_path_are_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHB_TRUSTED_ORIGINS", "https://mhb.example/, http://localhost:8000/")
    monkeypatch.setenv("MHB_ALLOWED_HOSTS", "https://mhb.example/,localhost:8000,[::1],.example")
    monkeypatch.setenv("MHB_SUB_PATH", "mhb/")
    monkeypatch.setenv("MHB_SITE_URL", "https://mhb.example/mhb/")
    environment = env.read_environment()
    assert environment.trusted_origins == ["https://mhb.example", "http://localhost:8000"]
    assert environment.allowed_hosts == ["mhb.example", "localhost", "[::1]", ".example"]
    assert (environment.sub_path, environment.site) == ("/mhb", "https://mhb.example")


def test_sites_on_one_host_have_cookies_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = env.read_environment().cookie("session")
    assert real == env.read_environment().cookie("session") != env.read_environment().cookie("csrf")
    monkeypatch.setenv("MHB_SITE_URL", "http://localhost:8001")  # a copy, with the same secret
    copy = env.read_environment().cookie("session")
    monkeypatch.setenv("MHB_DATA_DIR", str(tmp_path / "training"))
    monkeypatch.delenv("MHB_SITE_URL")
    training = env.read_environment().cookie("session")
    assert len({real, copy, training}) == 3
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in (real, copy, training))


def test_production_must_declare_whether_it_uses_https(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody sends passwords unencrypted by mistake."""
    assert "MHB_HTTPS must be set" in refusal(monkeypatch, MHB_DATABASE_URL=POSTGRES, MHB_SECRET_KEY=KEY)
    monkeypatch.setenv("MHB_HTTPS", "false")
    assert env.read_environment().https is False
    monkeypatch.setenv("MHB_HTTPS", "true")
    assert env.read_environment().https is True


def test_an_embedded_site_need_not_declare_https(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not env.read_environment().https


def test_trusted_proxies_are_a_number_or_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env.read_environment().proxies == 0
    monkeypatch.setenv("MHB_TRUSTED_PROXIES", " 2 ")
    assert env.read_environment().proxies == 2
    monkeypatch.setenv("MHB_TRUSTED_PROXIES", "10.0.0.2, fd00::/8,")
    assert env.read_environment().proxies == ["10.0.0.2/32", "fd00::/8"]


@pytest.mark.parametrize("secret", ["", "short"])
def test_production_needs_a_secret(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    message = refusal(monkeypatch, MHB_DATABASE_URL=POSTGRES, MHB_SECRET_KEY=secret)
    assert "MHB_SECRET_KEY must be set to at least 32 characters" in message


def test_each_wrong_setting_has_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(monkeypatch, MHB_DEBUG="2", MHB_LEASE_SECONDS="soon", MHB_REDIS_URL="x").splitlines()
    assert sorted(line.split()[2] for line in message) == ["MHB_DEBUG:", "MHB_LEASE_SECONDS:", "MHB_REDIS_URL:"]


def test_messages_do_not_quote_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(monkeypatch, MHB_DATABASE_URL="mysql://mhb:hush@db/mhb", MHB_SECRET_KEY="hush-hush")
    assert "hush" not in message


def test_a_wrong_setting_stops_the_start() -> None:
    result = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "MHB_LEASE_SECONDS": "soon"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 1
    assert result.stderr.strip().startswith("Wrong setting. MHB_LEASE_SECONDS")
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize(("name", "value"), [("MHB_LANES", "0"), ("MHB_LANES", "many"), ("MHB_LANE_SECONDS", "1")])
def test_impossible_lane_settings_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert name in refusal(monkeypatch, **{name: value})


def test_the_number_of_lanes_is_unset_by_default() -> None:
    assert (env.read_environment().lanes, env.read_environment().lane_seconds) == (None, 300)


def test_the_access_of_endpoints_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of the site itself are taken from its other settings."""
    monkeypatch.setenv("MHB_DATABASE_URL", "postgresql://mhb:secret@Db.example/mhb")
    monkeypatch.setenv("MHB_REDIS_URL", "redis://broker:6380/0")
    monkeypatch.setenv("MHB_SECRET_KEY", KEY)
    monkeypatch.setenv("MHB_HTTPS", "true")
    monkeypatch.setenv("MHB_ALLOWED_HOSTS", "mhb.example,.wild.example,[::1]")
    monkeypatch.setenv("MHB_TRUSTED_ORIGINS", "https://front.example")
    monkeypatch.setenv("MHB_OWN_ADDRESSES", "web:8000, [fd00::1]:80")
    monkeypatch.setenv("MHB_ENDPOINT_KEYS", "OWN_KEY, BOUND_KEY=api.example,BOUND_KEY=.eu.example:443")
    monkeypatch.setenv("MHB_ENDPOINT_HOSTS", "API.example, 10.0.0.7:8000")
    monkeypatch.setenv("MHB_PORT", "8001")
    access = env.read_environment().access()
    assert access.services == [("web", 8000), ("fd00::1", 80), ("db.example", 5432), ("broker", 6380)]
    assert access.site == ["mhb.example", "::1", "front.example"]
    assert access.keys == {"OWN_KEY": [], "BOUND_KEY": ["api.example", ".eu.example:443"]}
    assert (access.hosts, access.port) == (["api.example", "10.0.0.7:8000"], 8001)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MHB_ENDPOINT_KEYS", "sk-a1b2"),
        ("MHB_ENDPOINT_KEYS", "OWN_KEY=https://api.example"),
        ("MHB_ENDPOINT_HOSTS", "*"),
        ("MHB_OWN_ADDRESSES", "web"),
        ("MHB_PORT", "0"),
    ],
)
def test_a_wrong_list_for_the_access_of_endpoints_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert refusal(monkeypatch, **{name: value}).startswith(f"Wrong setting. {name}: ")


SUB_PATH = """
from wsgiref.util import setup_testing_defaults
from mhb_site.server import startup
from mhb_site.wsgi import application
startup._READY.set()
for path in ("/", "/mhb/", "/mhb", "/static/mhb/css/base.css", "/mhb/static/mhb/css/base.css"):
    environ = {"PATH_INFO": path, "HTTP_HOST": "localhost"}
    setup_testing_defaults(environ)
    application(environ, lambda status, headers: print(status[:3], dict(headers).get("Location", "")))
"""


def test_a_site_under_a_sub_path_answers_whether_or_not_the_proxy_takes_it_off(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SUB_PATH],
        env={**os.environ, "MHB_SUB_PATH": "/mhb/", "MHB_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    redirect = "302 /mhb/accounts/login/?next=/mhb/"
    assert result.stdout.splitlines() == [redirect, redirect, redirect, "200 ", "200 "], result.stderr[-2000:]


def test_a_password_beside_the_address_may_hold_any_characters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    password = "12?a/b#c@d%41:e"
    (tmp_path / "password").write_text(password + "\n")
    monkeypatch.setenv("MHB_SECRET_KEY", KEY)
    monkeypatch.setenv("MHB_HTTPS", "true")
    monkeypatch.setenv("MHB_DATABASE_URL", POSTGRES)
    monkeypatch.setenv("MHB_DATABASE_PASSWORD_FILE", str(tmp_path / "password"))
    database = env.read_environment().database()
    assert (database["PASSWORD"], database["USER"], database["HOST"]) == (password, "mhb", "db.example")
    assert "not both" in refusal(monkeypatch, MHB_DATABASE_PASSWORD="another")
    monkeypatch.delenv("MHB_DATABASE_PASSWORD")
    said = refusal(monkeypatch, MHB_DATABASE_PASSWORD_FILE=str(tmp_path / "none"))
    assert (
        said
        == f"Wrong setting. MHB_DATABASE_PASSWORD_FILE: {tmp_path / 'none'} cannot be read (No such file or directory)."
    )


def test_the_password_of_redis_may_be_beside_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for password in ("a#b/c?d@e", "plain"):
        monkeypatch.setenv("MHB_REDIS_URL", "redis://broker:6380/1")
        monkeypatch.setenv("MHB_REDIS_PASSWORD", password)
        parts = urlsplit(env.read_environment().redis_url)
        assert (parts.hostname, parts.port, parts.path) == ("broker", 6380, "/1")
        assert unquote(parts.password or "") == password
    for url in ("redis://:other@broker/0", ""):
        assert "MHB_REDIS_PASSWORD needs" in refusal(monkeypatch, MHB_REDIS_URL=url)


def test_a_raw_password_that_looks_like_a_port_is_one() -> None:
    url = env.with_quoted_password("postgresql://mhb:12?x@db.example/mhb")
    assert unquote(urlsplit(url).password or "") == "12?x"


def test_an_unknown_time_zone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'Mars/Base' is not a time zone" in refusal(monkeypatch, MHB_TIME_ZONE="Mars/Base")
