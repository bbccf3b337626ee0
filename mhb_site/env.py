"""The environment, read once and checked. A wrong value stops the start with one sentence per mistake."""

import os
import secrets
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

import dj_database_url
from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from generation.llm.http.access import Access, read_host, read_keys

ROOT = Path(__file__).resolve().parent.parent
MAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


class WrongEnvironment(SystemExit):
    """The environment contains wrong values."""


def _comma_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def read_proxies(text: str) -> int | list[str]:
    """How many proxies (`2`), or their networks (`10.0.0.2, 192.168.0.0/24`). Raises ValueError."""
    if not text.strip() or text.strip().isdecimal():
        return int(text or 0)
    return [str(ip_network(part.strip())) for part in text.split(",") if part.strip()]


CommaList = Annotated[list[str], NoDecode]


class Env(BaseSettings):
    """The settings read from the environment. Every name has the prefix ``MHB_``.

    Embedded (no `database_url`): SQLite and a file broker under `data_dir`. Production: PostgreSQL and Redis.
    """

    model_config = SettingsConfigDict(env_prefix="MHB_", extra="ignore")

    data_dir: Annotated[Path, AfterValidator(lambda path: path.expanduser().resolve())] = ROOT / "var"
    database_url: str = ""
    redis_url: str = ""
    static_root: Path = ROOT / "staticfiles"  # where collectstatic puts what the web process serves
    secret_key: str = ""
    debug: bool = False
    allowed_hosts: CommaList = ["localhost", "127.0.0.1", "[::1]"]
    trusted_origins: CommaList = []
    https: bool | None = None  # must be said in production
    trusted_proxies: str = ""  # how many proxies in front, or their addresses
    database_pool: int = 16
    lease_seconds: int = 60  # how long a machine may hold a row of work without a sign of life
    lanes: Annotated[int, Field(ge=1, le=64)] | None = None  # a job; default: 1 embedded, 2 in production
    lane_seconds: Annotated[int, Field(ge=5)] = 300  # after which a lane ends and another one is started
    batch_poll_seconds: Annotated[float, Field(ge=0)] = 60.0  # between two looks at a provider's batch
    max_reply_bytes: Annotated[int, Field(ge=2**16, le=2**25)] = 2**20  # of a model's completion, unpacked
    currency: Annotated[str, Field(max_length=12)] = "USD"  # of the endpoints' prices; empty: none is shown
    review_lease_minutes: int = 15
    releases_per_hour: Annotated[int, Field(ge=1)] = 10  # cases that a physician may give back or decline in an hour
    invitation_hours: Annotated[int, Field(ge=1, le=24 * 90)] = 24 * 7  # how long an invitation link is valid
    site_url: str = ""  # what links of the command line begin with; empty: the first trusted origin
    email_url: str = (
        ""  # smtp://, smtp+tls:// (STARTTLS) or smtps://user:password@host:port; empty: nothing is e-mailed
    )
    email_from: str = ""  # the sender of invitations
    calibration_share: Annotated[float, Field(ge=0, le=1)] = 0.05  # of the claims, where calibration items are active
    repeat_share: Annotated[float, Field(ge=0, le=1)] = 0.0  # of the claims
    log_json: bool = False
    port: Annotated[int, Field(ge=1, le=65535)] = 8000  # where the web process listens
    endpoint_keys: CommaList = []  # NAME or NAME=HOST: variables that endpoints may name for their keys
    endpoint_hosts: CommaList = []  # the only hosts that endpoints may have; empty: any but those of `Access`
    own_addresses: CommaList = []  # HOST:PORT of the site's own services, besides database and broker

    _split = field_validator(
        "allowed_hosts", "trusted_origins", "endpoint_keys", "endpoint_hosts", "own_addresses", mode="before"
    )(_comma_list)

    @field_validator("endpoint_keys")
    @classmethod
    def _keys_have_names(cls, value: list[str]) -> list[str]:
        read_keys(value)
        return value

    @field_validator("endpoint_hosts")
    @classmethod
    def _hosts_are_hosts(cls, value: list[str]) -> list[str]:
        return [read_host(entry) for entry in value]

    @field_validator("own_addresses")
    @classmethod
    def _addresses_have_ports(cls, value: list[str]) -> list[str]:
        if without := [entry for entry in value if not read_host(entry).rpartition("]")[2].rpartition(":")[1]]:
            raise ValueError(f"{without[0]!r} has no port (write HOST:PORT)")
        return [read_host(entry) for entry in value]

    @field_validator("database_url")
    @classmethod
    def _only_postgres(cls, value: str) -> str:
        if value and not value.startswith(("postgres://", "postgresql://")):
            raise ValueError("must begin with postgresql:// (leave it empty to use the embedded SQLite database)")
        return value

    @field_validator("site_url")
    @classmethod
    def _site_is_an_address(cls, value: str) -> str:
        if value and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).hostname):
            raise ValueError("must begin with https:// or http:// and name a host")
        return value.rstrip("/")

    @field_validator("email_url")
    @classmethod
    def _only_smtp(cls, value: str) -> str:
        if value:
            parts = urlsplit(value)
            if parts.scheme not in MAIL_PORTS or not parts.hostname or (parts.port or 1) < 1:
                raise ValueError("must begin with smtp://, smtp+tls:// or smtps:// and name a host")
        return value

    @field_validator("redis_url")
    @classmethod
    def _only_redis(cls, value: str) -> str:
        if value and not value.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must begin with redis:// (leave it empty to use the embedded file broker)")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _count_or_addresses(cls, value: str) -> str:
        try:
            read_proxies(value)
        except ValueError:
            raise ValueError(
                "must be the number of proxies in front (1), or their addresses or networks, comma-separated "
                "(10.0.0.2, 192.168.0.0/24)"
            ) from None
        return value

    @model_validator(mode="after")
    def _production_is_whole(self) -> "Env":
        if self.database_url and len(self.secret_key) < 32:
            raise ValueError("MHB_SECRET_KEY must be set to at least 32 characters when MHB_DATABASE_URL is set")
        if self.database_url and self.https is None:
            raise ValueError(
                "MHB_HTTPS must be set when MHB_DATABASE_URL is set: true behind a proxy that provides HTTPS, or false, "
                "which sends passwords and sessions in the clear"
            )
        if self.email_url and "@" not in self.email_from:
            raise ValueError("MHB_EMAIL_FROM must be set to the sender's address when MHB_EMAIL_URL is set")
        if self.lease_seconds < 5:
            raise ValueError("MHB_LEASE_SECONDS must be 5 or more")
        if self.review_lease_minutes < 1:
            raise ValueError("MHB_REVIEW_LEASE_MINUTES must be 1 or more")
        if self.database_pool < 1:
            raise ValueError("MHB_DATABASE_POOL must be 1 or more")
        return self

    @model_validator(mode="after")
    def _data_can_be_kept(self) -> "Env":
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"MHB_DATA_DIR {self.data_dir} cannot be created ({error.strerror})") from None
        if not os.access(self.data_dir, os.W_OK | os.X_OK):
            raise ValueError(f"MHB_DATA_DIR {self.data_dir} is not writable")
        return self

    @property
    def proxies(self) -> int | list[str]:
        """How many proxies are in front, or their networks."""
        return read_proxies(self.trusted_proxies)

    @property
    def site(self) -> str:
        """What the address of each page begins with, where no request tells it."""
        origins = [origin for origin in self.trusted_origins if "*" not in origin]
        return self.site_url or (origins[0] if origins else f"http://localhost:{self.port}")

    @property
    def mail(self) -> SplitResult:
        """The mail server's address, in its parts."""
        return urlsplit(self.email_url)

    @property
    def embedded(self) -> bool:
        return not self.database_url

    def access(self) -> Access:
        """Which keys and addresses endpoints may have."""
        places = [urlsplit(f"//{entry}") for entry in self.own_addresses]
        services = [(place.hostname or "", place.port or 0) for place in places]
        for url, port in ((self.database_url, 5432), (self.redis_url, 6379)):
            if host := urlsplit(url).hostname:
                services.append((host, urlsplit(url).port or port))
        origins = [urlsplit(origin).hostname or "" for origin in self.trusted_origins]
        names = [host.strip("[]").lower() for host in (*self.allowed_hosts, *origins)]
        return Access(
            keys=read_keys(self.endpoint_keys),
            hosts=self.endpoint_hosts,
            services=services,
            site=[name for name in names if name and not name.startswith((".", "*"))],
            port=self.port,
        )

    def secret(self) -> str:
        """The site's secret: from the environment, else made once and kept beside the embedded database."""
        if self.secret_key:
            return self.secret_key
        kept = self.data_dir / "secret_key"
        if not kept.exists():
            kept.touch(mode=0o600)
            kept.write_text(secrets.token_urlsafe(48))
        return kept.read_text().strip()

    def database(self) -> dict[str, object]:
        """Django's DATABASES["default"]."""
        if self.database_url:
            settings: dict[str, Any] = {**dj_database_url.parse(self.database_url, engine="mhb_site.postgresql")}
            asked = settings.get("OPTIONS", {})  # what the URL asks for: sslmode, options
            settings["OPTIONS"] = {
                **asked,
                # After a long absence each attempt waits as long as the absence has lasted: rather a new one for each request.
                "pool": {"min_size": 1, "max_size": self.database_pool, "timeout": 20, "reconnect_timeout": 5},
                # Planning takes longer than answering: what is asked twice is prepared.
                "server_side_binding": True,
                "prepare_threshold": 1,
                # Where the statistics are old, PostgreSQL takes a claim for dear and compiles it: half a second for nothing.
                "options": f"-c jit=off {asked.get('options', '')}".strip(),
            }
            return settings
        return {
            "ENGINE": "mhb_site.sqlite",
            "NAME": self.data_dir / "mhb.sqlite3",
            "CONN_MAX_AGE": None,  # opening it anew for each request takes as long as the queries of a page
            "OPTIONS": {
                # A deferred transaction that turns into a writer fails with 'database is locked' and cannot wait.
                "transaction_mode": "IMMEDIATE",
                "timeout": 30,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
                "PRAGMA recursive_triggers=ON;",  # else INSERT OR REPLACE removes rows past the triggers that forbid it
            },
        }


def read_environment() -> Env:
    """The checked environment, or WrongEnvironment with one line per mistake."""
    try:
        return Env()
    except ValidationError as error:
        lines = []
        for mistake in error.errors():
            name = "MHB_" + "_".join(map(str, mistake["loc"])).upper() + ": " if mistake["loc"] else ""
            lines.append(f"Wrong setting. {name}{mistake['msg'].removeprefix('Value error, ')}.")
        raise WrongEnvironment("\n".join(lines)) from None
