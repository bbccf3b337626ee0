"""Access of endpoints: which variables hold keys, for which hosts, and which addresses are allowed.

The operator decides. Otherwise the author of an endpoint could have any variable of the server sent
to any address, or make the site call addresses that only the site can reach. Checked when an
endpoint is saved, when its key is read, and when a connection is made, as a name may resolve to
another address each time.
"""

import asyncio
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from generation.llm.errors import BadRequest, KeyMissing, NotAllowed

KEY_PREFIX = "MHB_KEY_"  # of variables that are meant to hold keys of endpoints
FILE_SUFFIX = "_FILE"  # NAME_FILE names a file that holds the key instead of NAME
MAX_KEY_CHARS = 16 * 1024  # read from a key file
RESOLVE_INTERVAL = 60.0  # seconds for which resolved addresses of the site's own services are reused
PORTS = {"http": 80, "https": 443}

# Metadata services beyond the link-local ones (Alibaba, Azure, Oracle, AWS, Google): they hand out
# the credentials of the machine.
METADATA = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
NAT64 = ip_network("64:ff9b::/96")
LOOPBACK = "loopback"
Address = IPv4Address | IPv6Address


class Forbidden(OSError):
    """This address is not one that endpoints may have."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)  # one text for all instances, so that it survives when several are merged


@dataclass(frozen=True, slots=True)
class Access:
    """The operator's rules.

    keys: variable -> hosts it may be sent to (empty: any); variables that begin with `KEY_PREFIX`
    are allowed in addition. hosts: the only hosts that may be called, whatever they resolve to
    (empty: any except link-local addresses, metadata services and the site itself). services: host
    and port of the site's database and broker. site: the site's own names. port: where its web
    process listens.
    """

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hosts: Sequence[str] = ()
    services: Sequence[tuple[str, int]] = ()
    site: Sequence[str] = ()
    port: int = 8000

    def check_key(self, name: str, url: str) -> None:
        """Raise NotAllowed if this variable must not be sent to this address, or to any."""
        if not name:
            return
        bound = self.keys.get(name)
        if name.endswith(FILE_SUFFIX) or (
            bound is None and not (name.startswith(KEY_PREFIX) and len(name) > len(KEY_PREFIX))
        ):
            raise NotAllowed(
                f"Variable: {name}. Allowed are those in MHB_ENDPOINT_KEYS, and those named {KEY_PREFIX}..."
            )
        if bound and not _is_listed(bound, *_host_and_port(url)):
            raise NotAllowed(f"Variable: {name}. By MHB_ENDPOINT_KEYS it is sent to other hosts only.")

    def check_url(self, url: str) -> None:
        """Raise NotAllowed if an endpoint must not have this address; its host is not resolved."""
        host, port = _host_and_port(url)
        if self.hosts:
            if not _is_listed(self.hosts, host, port):
                raise NotAllowed(f"Host: {host}. MHB_ENDPOINT_HOSTS does not list it.")
            return
        address = _literal_address(host)
        is_own_web_port = port in (*PORTS.values(), self.port) and host in self.site and not _is_local(host, address)
        try:
            if is_own_web_port or host in METADATA_NAMES or (host, port) in self.services:
                raise Forbidden
            if _is_local(host, address) and port == self.port:
                raise Forbidden
            if address is not None:
                self.check_address(address, port)
        except Forbidden:
            raise NotAllowed(f"Host: {host}:{port}. Only MHB_ENDPOINT_HOSTS can allow it.") from None

    def check_address(self, address: Address, port: int, services: frozenset[tuple[str, int]] = frozenset()) -> None:
        """Raise Forbidden if this address must not be called.

        `services`: the current addresses of the site's own services.
        """
        address = _unwrapped(address)
        refused = address.is_link_local or address.is_multicast or address.is_unspecified or address in METADATA
        web = address.is_loopback and port == self.port
        if refused or web or (_address_name(address), port) in services:
            raise Forbidden

    def key(self, name: str, url: str) -> str:
        """Read the key in this variable, for this address. Raises NotAllowed, KeyMissing."""
        self.check_key(name, url)
        return read_key(name)


DEFAULT_ACCESS = Access()  # if the operator has set nothing


def read_key(name: str) -> str:
    """Read the key from a variable, or from the file that NAME_FILE names. Raises KeyMissing."""
    key = os.environ.get(name, "").strip()
    if not key and (file := os.environ.get(name + FILE_SUFFIX, "").strip()):
        try:
            with Path(file).open(encoding="utf-8", errors="replace") as file_object:
                key = file_object.read(MAX_KEY_CHARS).strip()
        except OSError as error:
            raise KeyMissing(
                f"The file that the environment variable {name}{FILE_SUFFIX} names cannot be read: {error.strerror}."
            ) from None
    if not key:
        raise KeyMissing(f"The environment variable {name} is not set.")
    if not (key.isascii() and key.isprintable()):  # the HTTP client would fail with an error that quotes the key
        raise KeyMissing(f"The environment variable {name} contains characters that a key cannot have.")
    return key


def parse_keys(entries: Sequence[str]) -> dict[str, list[str]]:
    """Parse the entries `NAME` and `NAME=HOST` of the environment. Raises ValueError."""
    keys: dict[str, list[str]] = {}
    anywhere: set[str] = set()
    for entry in entries:
        name, bound, host = entry.partition("=")
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name) or name.endswith(FILE_SUFFIX):
            raise ValueError(f"{name!r} is not the name of a variable that holds a key")
        if bound:
            keys.setdefault(name, []).append(parse_host(host))
        else:
            anywhere.add(name)
            keys.setdefault(name, [])
    if both := [name for name in anywhere if keys[name]]:
        raise ValueError(f"{both[0]} is listed with a host and without one")
    return keys


def parse_host(entry: str) -> str:
    """Parse an entry `HOST`, `HOST:PORT` or `.DOMAIN` of the environment. Raises ValueError."""
    host = entry.strip().lower()
    if not re.fullmatch(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?", host):
        raise ValueError(f"{entry!r} is not a host (write HOST, HOST:PORT, .DOMAIN or [IPv6])")
    return host


def _host_and_port(url: str) -> tuple[str, int]:
    """Host and port of a URL. Raises NotAllowed if they could be read in more than one way."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        host, port = "", 0
    if not re.fullmatch(r"[a-z0-9_.-]+|[0-9a-f:.]+", host, re.ASCII):
        raise NotAllowed("The host of this address cannot be read.")
    return host, port


def _is_listed(hosts: Sequence[str], host: str, port: int) -> bool:
    shown = host
    if ":" in host:
        shown = f"[{host}]"
    with_port = f"{shown}:{port}"
    for entry in hosts:
        if entry in (shown, with_port):
            return True
        if entry.startswith(".") and (shown.endswith(entry) or with_port.endswith(entry)):
            return True
    return False


def _literal_address(host: str) -> Address | None:
    """The IP address that a host denotes, in any notation (``2852039166`` too); None for a name."""
    try:
        return _unwrapped(ip_address(host))
    except ValueError:
        pass
    try:
        if re.fullmatch(r"[0-9a-fx.]+", host):
            return IPv4Address(socket.inet_aton(host))
        return None
    except OSError:
        return None


def _unwrapped(address: Address) -> Address:
    """The IPv4 address within an IPv6 address, if there is one; else the address itself."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return address


def _is_local(host: str, address: Address | None) -> bool:
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def _address_name(address: Address) -> str:
    if address.is_loopback:
        return LOOPBACK
    return str(address)


async def resolve(host: str, port: int) -> list[tuple[str, int]]:
    """The addresses of a host, as `Access.check_address` compares them; none if it is not known."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    services = []
    for *_about, place in infos:
        address = ip_address(str(place[0]).partition("%")[0])
        services.append((_address_name(_unwrapped(address)), port))
    return services


def check_address(url: str) -> None:
    """Raise BadRequest for an address on which the HTTP client would fail with errors of its own.

    The address is not quoted, as it may hold a secret.
    """
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname and parts.hostname.encode("idna")) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not (usable and parts.scheme in ("http", "https") and url.isascii() and url.isprintable()):
        raise BadRequest("The endpoint's address is not of the form http(s)://host[:port]/path.")
