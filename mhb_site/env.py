"""The environment, read once and checked. A wrong value stops the start, with one sentence each."""

import hashlib
import os
import re
import secrets
import stat
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import SplitResult, quote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dj_database_url
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from generation.llm.http.access import FILE_SUFFIX, KEY_PREFIX, Access, parse_host, parse_keys
from mhb_site.sign_in.providers import read_providers
from review.rules.permissions import UserRole

ROOT = Path(__file__).resolve().parent.parent
ALIKE = 0.9  # from here on, a name is that of a setting, misspelt
MAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


PRIVATE = 0o700  # of folders: patients' texts are nobody else's on this machine


def close_to_others(folder: Path) -> None:
    """Leave a folder to its owner alone, if it is ours and nobody's common one, such as /tmp."""
    found = folder.stat()
    is_shared = bool(found.st_mode & stat.S_ISVTX)
    if found.st_uid == os.geteuid() and found.st_mode & 0o077 and not is_shared:
        folder.chmod(PRIVATE)


class WrongEnvironment(SystemExit):
    """The environment contains wrong values."""


def _comma_list(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def read_proxies(text: str) -> int | list[str]:
    """Parse the number of proxies (`2`) or their networks (`10.0.0.2, 192.168.0.0/24`).

    Raises ValueError.
    """
    if not text.strip() or text.strip().isdecimal():
        return int(text or 0)
    return [str(ip_network(part.strip())) for part in text.split(",") if part.strip()]


_AT_HOST = re.compile(r"(\[[^\]]+\]|[^/?#@:\[\]]+)(:\d+)?(/[^#@]*)?(\?[^#]*)?")


def with_quoted_password(url: str) -> str:
    """An address whose password may be written raw, with `#`, `?`, `/` and so on, percent-encoded.

    Raises ValueError, without the password, if nothing makes an address of it.
    """
    scheme, _, rest = url.partition("://")
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and (parts.port or 1) > 0 and not parts.fragment and "@" not in parts.path
        is_whole = is_whole and (parts.username is not None or "@" not in rest)  # mhb:12?x@host has no user
    except ValueError:
        is_whole = False
    if not is_whole and "@" in rest:
        login, _, place = rest.rpartition("@")
        name, colon, password = login.partition(":")
        rest = f"{quote(name, safe='%')}{colon}{_quoted(password)}@{place}"
        is_whole = bool(_AT_HOST.fullmatch(place))
    if not is_whole:
        raise ValueError(
            "must be an address like SCHEME://user:password@host:port/name; percent-encode special characters of the "
            "password (%23 for #, %2F for /, %3F for ?, %40 for @)"
        )
    return f"{scheme}://{rest}"


def _quoted(password: str) -> str:
    """A password, percent-encoded unless it is already."""
    is_encoded = re.fullmatch(r"(?:[^%]|%[0-9A-Fa-f]{2})*", password) and "%" in password
    safe = ""
    if is_encoded:
        safe = "%"
    return quote(password, safe=safe)


def _with_password(parts: SplitResult, password: str) -> str:
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{place}").geturl()


def _origin(value: str) -> str:
    origin = value.rstrip("/")
    if value and not re.fullmatch(r"https?://[^/?#@\s]+", origin, re.IGNORECASE):
        raise ValueError(f"{value!r} must be https:// or http:// and a host, without a path (https://mhb.example.org)")
    return origin


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{value!r} is not a time zone (Europe/Berlin)") from None
    return value


def _keys(value: list[str]) -> list[str]:
    parse_keys(value)
    return value


def _address(entry: str) -> str:
    if not parse_host(entry).rpartition("]")[2].rpartition(":")[1]:
        raise ValueError(f"{entry!r} has no port (write HOST:PORT)")
    return parse_host(entry)


def _database_url(value: str) -> str:
    if value and not value.startswith(("postgres://", "postgresql://")):
        raise ValueError("must begin with postgresql:// (leave it empty to use the embedded SQLite database)")
    if value:
        return with_quoted_password(value)
    return value


def _host_without_scheme(value: str) -> str:
    """A host also if it was written as an address."""
    host = re.sub(r"(?<=[^:]):\d+$", "", re.sub(r"^https?://|/.*$", "", value, flags=re.IGNORECASE))
    if not re.fullmatch(r"\*|\.?[\w-]+(\.[\w-]+)*\.?|\[[0-9a-fA-F:.]+\]", host):
        raise ValueError(f"{value!r} is not a host (write HOST or .DOMAIN, with commas between several)")
    return host


def _sub_path(value: str) -> str:
    path = value.strip("/")
    if not re.fullmatch(r"[\w.~-]*(/[\w.~-]+)*", path, re.ASCII):
        raise ValueError("must be a path like /mhb, without a host")
    return path and f"/{path}"


def _site_url(value: str) -> str:
    if value and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).hostname):
        raise ValueError("must begin with https:// or http:// and name a host")
    return value.rstrip("/")


def _email_url(value: str) -> str:
    if value:
        value = with_quoted_password(value)
        parts = urlsplit(value)
        if parts.scheme not in MAIL_PORTS or not parts.hostname or (parts.port or 1) < 1:
            raise ValueError("must begin with smtp://, smtp+tls:// or smtps:// and name a host")
    return value


def _redis_url(value: str) -> str:
    if value and not value.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("must begin with redis:// (leave it empty to use the embedded file broker)")
    if not value or value.startswith("unix://"):
        return value
    return with_quoted_password(value)


def _sso_file(value: str) -> str:
    read_providers(value)
    return value


def _trusted_proxies(value: str) -> str:
    try:
        read_proxies(value)
    except ValueError:
        raise ValueError(
            "must be the number of proxies in front (1), or their addresses or networks, comma-separated "
            "(10.0.0.2, 192.168.0.0/24)"
        ) from None
    return value


Origin = Annotated[str, AfterValidator(_origin)]
Host = Annotated[str, AfterValidator(parse_host)]
Address = Annotated[str, AfterValidator(_address)]
AllowedHost = Annotated[str, AfterValidator(_host_without_scheme)]
T = TypeVar("T")
CommaList = Annotated[list[T], BeforeValidator(_comma_list)]


class Env(BaseModel):
    """The settings read from the environment. Every name has the prefix ``MHB_``.

    Embedded (no `database_url`): SQLite and a file broker under `data_dir`. Production: PostgreSQL
    and Redis. The text under a setting is its meaning in docs/environment.md.
    """

    model_config = ConfigDict(validate_default=True)

    data_dir: Annotated[Path, AfterValidator(lambda path: path.expanduser().resolve())] = ROOT / "var"
    """the embedded database and queue, uploads, the generated secret"""
    database_url: Annotated[str, AfterValidator(_database_url)] = ""
    """`postgresql://…`; empty: embedded SQLite"""
    database_password: str = ""
    """the password, if the address has none"""
    redis_url: Annotated[str, AfterValidator(_redis_url)] = ""
    """`redis://…`; empty: embedded file broker"""
    redis_password: str = ""
    """the password of Redis, if the address has none"""
    s3_bucket: str = ""
    """S3-compatible storage of [files](operations.md#files); empty: files lie in `MHB_DATA_DIR`"""
    s3_endpoint: Origin = ""
    """`https://...` of S3-compatible storage; empty: Amazon's"""
    s3_region: str = ""
    """its region"""
    s3_access_key: str = ""
    """empty: credentials as boto3 finds them, such as the role of the machine"""
    s3_secret_key: str = ""
    """the key that belongs to `MHB_S3_ACCESS_KEY`"""
    static_root: Path = ROOT / "staticfiles"
    """where `collectstatic` puts files and the web process reads them"""
    secret_key: str = ""
    """at least 32 characters; required with a database URL; default: generated when embedded"""
    debug: bool = False
    """Django's debug pages; never in production"""
    commit: str = ""
    """the commit of the sources, for the bundles of runs; default: what git says"""
    allowed_hosts: CommaList[AllowedHost] = ["localhost", "127.0.0.1", "[::1]"]
    """host names, comma-separated"""
    trusted_origins: CommaList[Origin] = []
    """origins of forms behind a proxy, such as `https://mhb.example.org`"""
    https: bool | None = None
    """secure cookies, redirect, HSTS; trusts `X-Forwarded-Proto`; required with a database URL;
    default: `false` when embedded"""
    trusted_proxies: Annotated[str, AfterValidator(_trusted_proxies)] = ""
    """[how many proxies](operations.md#signing-in) are in front (`1`), or their addresses or
    networks (`10.0.0.2,192.168.0.0/24`); empty: none"""
    database_pool: Annotated[int, Field(ge=1)] = 16
    """connections per process"""
    database_pooler: bool = False
    """the URL leads to a [pooler](operations.md#a-connection-pooler)"""
    statement_seconds: int = 60
    """longest statement of a web process, which then answers 503; `0`: no limit"""
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    """of pages, for people whose browser names none, and of daily limits; the API speaks UTC"""
    alive_file: Path | None = None
    """a file that worker and sweeper touch every few seconds, for health checks"""
    lease_seconds: Annotated[int, Field(ge=5)] = 60
    """how long a worker may be silent before another takes its work"""
    lanes: Annotated[int, Field(ge=1, le=64)] | None = None
    """worker processes on one batch or run, unless it names another number; default: `1` embedded,
    `2` with PostgreSQL"""
    lane_seconds: Annotated[int, Field(ge=5)] = 300
    """lifetime of a lane; then a new one starts"""
    batch_poll_seconds: Annotated[float, Field(ge=0)] = 60.0
    """time between two checks of a provider batch"""
    max_reply_bytes: Annotated[int, Field(ge=2**16, le=2**25)] = 2**20
    """the longest completion that is read, unpacked (65536 to 33554432); less where a token limit
    allows less"""
    reader_memory_mb: Annotated[int, Field(ge=256, le=2**20)] = 1024
    """memory of the process that reads an imported file (a JSON log of inspect-ai: six times its
    size)"""
    reader_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    """its seconds of computing for the next record or image"""
    currency: Annotated[str, Field(max_length=12)] = "USD"
    """the currency of the endpoints' prices; nothing is converted"""
    review_lease_minutes: Annotated[int, Field(ge=1)] = 15
    """how long a physician's claim holds without activity"""
    releases_per_hour: Annotated[int, Field(ge=1)] = 10
    """how many cases a physician may return or decline in an hour"""
    cases_before_adjudication: Annotated[int, Field(ge=0)] = 3
    """cases of a benchmark that physicians finish before they are offered its adjudications
    (unless an admin reserves one)"""
    invitation_hours: Annotated[int, Field(ge=1, le=24 * 90)] = 24 * 7
    """how long an invitation link is valid (1 to 2160)"""
    sub_path: Annotated[str, AfterValidator(_sub_path)] = ""
    """the path under which a proxy shows the site, such as `/mhb`"""
    site_url: Annotated[str, AfterValidator(_site_url)] = ""
    """what links printed by commands begin with; default: the first of `MHB_TRUSTED_ORIGINS`, else
    `http://localhost:` and the port"""
    email_url: Annotated[str, AfterValidator(_email_url)] = ""
    """the mail server: `smtp://user:password@host:port`, `smtp+tls://` for STARTTLS, `smtps://`
    for TLS; percent-encode special characters. Invitations are then shown only where they cannot
    be sent; empty: nothing is e-mailed"""
    email_from: str = ""
    """the sender of these e-mails; required with a mail server"""
    calibration_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    """share of a physician's claims (0 to 1) that are cases with a known answer, while such cases
    are active"""
    repeat_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """share that silently repeat one of their own cases, closed at least a week ago"""
    log_json: bool = False
    """one JSON object per log line"""
    metrics_token: str = ""
    """who sends it as a bearer token reads `/metrics`; empty: no metrics"""
    sentry_dsn: str = ""
    """where errors are sent (extra `observe`)"""
    otel: bool = False
    """traces of requests and tasks, sent to `OTEL_EXPORTER_OTLP_ENDPOINT` (extra `observe`)"""
    keep_sign_ins_days: Annotated[int, Field(ge=0)] = 365
    """how long addresses and browsers of sign-ins are kept; `0`: for good"""
    keep_call_texts_days: Annotated[int, Field(ge=0)] = 0
    """how long the ledger keeps texts of jobs that are over; such replies are not used again;
    default: `0`: for good"""
    second_factor_roles: CommaList[UserRole] = []
    """roles that must have a second factor, comma-separated (`admin,auditor`)"""
    sso_session_hours: Annotated[int, Field(ge=1, le=336)] = 12
    """how long a sign-in through a provider lasts; then the provider is asked again"""
    sso_token_hours: Annotated[int, Field(ge=1, le=2160)] = 24
    """how long API tokens of such accounts work after their last sign-in there"""
    sso_file: Annotated[str, AfterValidator(_sso_file)] = ""
    """a JSON file with [providers](operations.md#single-sign-on); empty: passwords only"""
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    """the port of the site; no endpoint may use it on this machine"""
    endpoint_keys: Annotated[CommaList[str], AfterValidator(_keys)] = []
    """variables that endpoints may use as keys, besides `MHB_KEY_...`: `NAME` or `NAME=HOST`,
    comma-separated"""
    endpoint_hosts: CommaList[Host] = []
    """the only hosts that endpoints may use: `HOST`, `HOST:PORT`, `.DOMAIN` or `[IPv6]`,
    comma-separated; empty: [all but some](operations.md#endpoints)"""
    own_addresses: CommaList[Address] = []
    """`HOST:PORT` of the site's own services that no endpoint may use, besides the database and
    Redis"""

    @model_validator(mode="after")
    def _add_passwords(self) -> "Env":
        if self.database_url and self.database_password:
            parts = urlsplit(self.database_url)
            if not parts.username or parts.password:
                raise ValueError("MHB_DATABASE_PASSWORD needs an MHB_DATABASE_URL with a user and without a password")
            self.database_url = _with_password(parts, self.database_password)
        if self.redis_password:
            parts = urlsplit(self.redis_url)
            if not parts.hostname or parts.password:
                raise ValueError("MHB_REDIS_PASSWORD needs an MHB_REDIS_URL with a host and without a password")
            self.redis_url = _with_password(parts, self.redis_password)
        return self

    @model_validator(mode="after")
    def _check_required(self) -> "Env":
        if self.database_url and len(self.secret_key) < 32:
            raise ValueError("MHB_SECRET_KEY must be set to at least 32 characters when MHB_DATABASE_URL is set")
        if self.database_url and self.https is None:
            raise ValueError(
                "MHB_HTTPS must be set when MHB_DATABASE_URL is set: true behind a proxy that provides HTTPS, or false, "
                "which sends passwords and sessions in the clear"
            )
        if self.email_url and "@" not in self.email_from:
            raise ValueError("MHB_EMAIL_FROM must be set to the sender's address when MHB_EMAIL_URL is set")
        return self

    @model_validator(mode="after")
    def _check_data_dir(self) -> "Env":
        try:
            self.data_dir.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            close_to_others(self.data_dir)
        except OSError as error:
            raise ValueError(f"MHB_DATA_DIR {self.data_dir} cannot be created ({error.strerror})") from None
        if not os.access(self.data_dir, os.W_OK | os.X_OK):
            raise ValueError(f"MHB_DATA_DIR {self.data_dir} is not writable")
        return self

    @property
    def s3(self) -> dict[str, object]:
        """The options of django-storages; empty without a bucket."""
        options = {
            "bucket_name": self.s3_bucket,
            "endpoint_url": self.s3_endpoint,
            "region_name": self.s3_region,
            "access_key": self.s3_access_key,
            "secret_key": self.s3_secret_key,
        }
        if self.s3_bucket:
            return {name: value for name, value in options.items() if value}
        return {}

    @property
    def proxies(self) -> int | list[str]:
        """The number of proxies in front, or their networks."""
        return read_proxies(self.trusted_proxies)

    @property
    def site(self) -> str:
        """The base URL of pages, for use without a request."""
        origins = [origin for origin in self.trusted_origins if "*" not in origin]
        site = self.site_url or (*origins, f"http://localhost:{self.port}")[0]
        return site.removesuffix(self.sub_path)  # which `reverse` puts before every path

    @property
    def mail(self) -> SplitResult:
        """The parts of the mail server's URL."""
        return urlsplit(self.email_url)

    @property
    def embedded(self) -> bool:
        return not self.database_url

    def access(self) -> Access:
        """The keys and addresses that endpoints may use."""
        services = []
        for entry in self.own_addresses:
            address = urlsplit(f"//{entry}")
            services.append((address.hostname or "", address.port or 0))
        s3_port = 80
        if self.s3_endpoint.startswith("https"):
            s3_port = 443
        for url, port in ((self.database_url, 5432), (self.redis_url, 6379), (self.s3_endpoint, s3_port)):
            if host := urlsplit(url).hostname:
                services.append((host, urlsplit(url).port or port))
        origins = [urlsplit(origin).hostname or "" for origin in self.trusted_origins]
        names = [host.strip("[]").lower() for host in (*self.allowed_hosts, *origins)]
        return Access(
            keys=parse_keys(self.endpoint_keys),
            hosts=self.endpoint_hosts,
            services=services,
            site=[name for name in names if name and not name.startswith((".", "*"))],
            port=self.port,
        )

    def secret(self) -> str:
        """The site's secret: from the environment, else generated once in the data folder."""
        if self.secret_key:
            return self.secret_key
        file = self.data_dir / "secret_key"
        if not file.exists():
            unfinished = file.with_suffix(f".{os.getpid()}")  # a full disk leaves no empty secret behind
            unfinished.touch(mode=0o600)
            unfinished.write_text(secrets.token_urlsafe(48))
            unfinished.rename(file)
        return file.read_text().strip()

    def cookie(self, name: str) -> str:
        """The name of a cookie of this site alone.

        Cookies know no ports: a training and a real site on one host would sign each other out.
        """
        site = hashlib.sha256(f"{self.secret()} {self.site_url}".encode()).hexdigest()[:8]
        return f"mhb_{name}_{site}"

    def database(self) -> dict[str, object]:
        """Django's DATABASES["default"]."""
        if self.database_url:
            settings: dict[str, Any] = {**dj_database_url.parse(self.database_url)}
            url_options = settings.get("OPTIONS", {})  # from the URL: sslmode, options
            settings["ENGINE"] = "mhb_site.postgresql"
            settings["OPTIONS"] = {
                **url_options,
                # Attempts to reconnect back off, and after a long outage the next one would be far
                # away. With this limit, the next request tries again.
                "pool": {"min_size": 1, "max_size": self.database_pool, "timeout": 20, "reconnect_timeout": 5},
            }
            if self.database_pooler:
                # A cursor on the server would belong to a connection that is lent to others, and a
                # pooler such as PgBouncer refuses the startup parameter `options`.
                settings["DISABLE_SERVER_SIDE_CURSORS"] = True
            else:
                # With outdated statistics, PostgreSQL considers a claim expensive and compiles it,
                # for half a second.
                settings["OPTIONS"]["options"] = f"-c jit=off {url_options.get('options', '')}".strip()
            return settings
        return {
            "ENGINE": "mhb_site.sqlite",
            "NAME": self.data_dir / "mhb.sqlite3",
            "CONN_MAX_AGE": None,  # opening a connection takes as long as the queries of a page
            "OPTIONS": {
                # A deferred transaction that starts to write cannot wait: it fails with 'database
                # is locked'.
                "transaction_mode": "IMMEDIATE",
                "timeout": 30,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
                # Else INSERT OR REPLACE deletes rows without firing the triggers that forbid it.
                "PRAGMA recursive_triggers=ON;",
            },
        }


def _values() -> dict[str, str]:
    """The settings that are set, each by its variable or by the file that MHB_..._FILE names.

    Raises WrongEnvironment.
    """
    environment = {name.upper(): value for name, value in os.environ.items()}
    found = {}
    for name in Env.model_fields:
        variable = f"MHB_{name.upper()}"
        if variable in environment:
            found[name] = environment[variable]
        if path := os.environ.get(f"{variable}{FILE_SUFFIX}", "").strip():
            if os.environ.get(variable, "").strip():
                raise WrongEnvironment(f"Wrong setting. Set {variable} or {variable}{FILE_SUFFIX}, not both.")
            try:
                found[name] = Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not text"
                raise WrongEnvironment(
                    f"Wrong setting. {variable}{FILE_SUFFIX}: {path} cannot be read ({reason})."
                ) from None
    return found


def _misspelt() -> list[str]:
    """A line for each variable that is almost the name of a setting: it would be ignored."""
    known = set()
    for name in Env.model_fields:
        known |= {f"MHB_{name.upper()}", f"MHB_{name.upper()}{FILE_SUFFIX}"}
    lines = []
    for name in sorted(os.environ):
        if name.startswith("MHB_") and name not in known and not name.startswith(KEY_PREFIX):
            for close in get_close_matches(name, known, 1, ALIKE):
                lines.append(f"Wrong setting. {name} is none. Is it {close}?")
    return lines


def read_environment() -> Env:
    """Read and check the environment. Raises WrongEnvironment with one line per mistake."""
    if lines := _misspelt():
        raise WrongEnvironment("\n".join(lines))
    try:
        return Env.model_validate(_values())
    except ValidationError as error:
        for mistake in error.errors():
            name = ""
            if mistake["loc"]:
                name = f"MHB_{mistake['loc'][0]}: ".upper()
            lines.append(f"Wrong setting. {name}{mistake['msg'].removeprefix('Value error, ')}.")
        raise WrongEnvironment("\n".join(lines)) from None
