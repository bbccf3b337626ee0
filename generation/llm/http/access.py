"""What endpoints may be given: which environment variables hold keys, for which hosts, and which addresses are asked at all.

The operator decides. The maker of an endpoint could otherwise have any variable of the server sent to any address, or have the
site ask what only the site can reach. Checked when an endpoint is saved, when its key is read, and when a connection is made:
a name may resolve to another address each time.
"""

import asyncio
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from generation.llm.errors import BadRequest, KeyMissing, NotAllowed

PREFIX = "MHB_KEY_"  # of variables that are there to hold keys of endpoints
FILE = "_FILE"  # NAME_FILE: the file that holds the key which NAME would
MOST_KEY = 16 * 1024  # characters of a key's file
AGAIN = 60.0  # seconds for which the addresses of the site's own services are remembered
PORTS = {"http": 80, "https": 443}

# Besides the link-local ones: Alibaba, Azure, Oracle, AWS, Google. They hand out credentials of the machine.
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
        super().__init__(self.__doc__)  # the same text for all, so that one of several is still told as what it is


@dataclass(frozen=True, slots=True)
class Access:
    """The operator's decision.

    keys: variable -> the hosts it may be sent to, none for any; besides these any that begins with `PREFIX`. hosts: the only
    ones that may be asked, whatever they resolve to; none for any but link-local, metadata and the site's own. services: host
    and port of its database and broker. site: its own names; port: where its web process listens.
    """

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hosts: Sequence[str] = ()
    services: Sequence[tuple[str, int]] = ()
    site: Sequence[str] = ()
    port: int = 8000

    def check_key(self, name: str, url: str) -> None:
        """Raises NotAllowed where this variable must not be sent to this address, or to none."""
        if not name:
            return
        bound = self.keys.get(name)
        if name.endswith(FILE) or (bound is None and not (name.startswith(PREFIX) and len(name) > len(PREFIX))):
            raise NotAllowed(f"Variable: {name}. Allowed are those in MHB_ENDPOINT_KEYS, and those named {PREFIX}...")
        if bound and not _listed(bound, *_place(url)):
            raise NotAllowed(f"Variable: {name}. By MHB_ENDPOINT_KEYS it is sent to other hosts only.")

    def check_url(self, url: str) -> None:
        """Raises NotAllowed where an endpoint must not have this address, as far as can be told without resolving its host."""
        host, port = _place(url)
        if self.hosts:
            if not _listed(self.hosts, host, port):
                raise NotAllowed(f"Host: {host}. MHB_ENDPOINT_HOSTS does not list it.")
            return
        address = _literal(host)
        ours = port in (*PORTS.values(), self.port) and host in self.site and not _is_local(host, address)
        try:
            if ours or host in METADATA_NAMES or (host, port) in self.services:
                raise Forbidden
            if _is_local(host, address) and port == self.port:
                raise Forbidden
            if address is not None:
                self.check_address(address, port)
        except Forbidden:
            raise NotAllowed(f"Host: {host}:{port}. Only MHB_ENDPOINT_HOSTS can allow it.") from None

    def check_address(self, address: Address, port: int, services: frozenset[tuple[str, int]] = frozenset()) -> None:
        """Raises Forbidden. `services`: the addresses of the site's own services, as they resolve now."""
        address = _plain(address)
        refused = address.is_link_local or address.is_multicast or address.is_unspecified or address in METADATA
        web = address.is_loopback and port == self.port
        if refused or web or (_name(address), port) in services:
            raise Forbidden

    def key(self, name: str, url: str) -> str:
        """The key in this variable, for this address. Raises NotAllowed, KeyMissing."""
        self.check_key(name, url)
        return key_in(name)


PLAIN = Access()  # where the operator has said nothing


def key_in(name: str) -> str:
    """The key that a variable holds, or the file that NAME_FILE names. Raises KeyMissing."""
    key = os.environ.get(name, "").strip()
    if not key and (file := os.environ.get(name + FILE, "").strip()):
        try:
            with Path(file).open(encoding="utf-8", errors="replace") as opened:
                key = opened.read(MOST_KEY).strip()
        except OSError as error:
            raise KeyMissing(f"Variable: {name}{FILE} (its file cannot be read: {error.strerror}).") from None
    if not key:
        raise KeyMissing(f"Variable: {name}.")
    if not (key.isascii() and key.isprintable()):  # the HTTP client would fail with an error that quotes the key
        raise KeyMissing(f"Variable: {name} (it holds characters that no key can have).")
    return key


def read_keys(entries: Sequence[str]) -> dict[str, list[str]]:
    """`NAME` and `NAME=HOST`, as the environment lists them. Raises ValueError."""
    found: dict[str, list[str]] = {}
    anywhere: set[str] = set()
    for entry in entries:
        name, bound, host = entry.partition("=")
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name) or name.endswith(FILE):
            raise ValueError(f"{name!r} is not the name of a variable that holds a key")
        if bound:
            found.setdefault(name, []).append(read_host(host))
        else:
            anywhere.add(name)
            found.setdefault(name, [])
    if both := [name for name in anywhere if found[name]]:
        raise ValueError(f"{both[0]} is listed with a host and without one")
    return found


def read_host(entry: str) -> str:
    """`HOST`, `HOST:PORT` or `.DOMAIN`, as the environment lists it. Raises ValueError."""
    host = entry.strip().lower()
    if not re.fullmatch(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?", host):
        raise ValueError(f"{entry!r} is not a host (write HOST, HOST:PORT, .DOMAIN or [IPv6])")
    return host


def _place(url: str) -> tuple[str, int]:
    """Host and port of an address. Raises NotAllowed where they could be read in more than one way."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        host, port = "", 0
    if not re.fullmatch(r"[a-z0-9_.-]+|[0-9a-f:.]+", host, re.ASCII):
        raise NotAllowed("The host of this address cannot be read.")
    return host, port


def _listed(hosts: Sequence[str], host: str, port: int) -> bool:
    shown = f"[{host}]" if ":" in host else host
    return any(
        each in (shown, f"{shown}:{port}")
        or (each.startswith(".") and (shown.endswith(each) or f"{shown}:{port}".endswith(each)))
        for each in hosts
    )


def _literal(host: str) -> Address | None:
    """The address that a host is, however it is written (``2852039166`` too); None for a name."""
    try:
        return _plain(ip_address(host))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host)) if re.fullmatch(r"[0-9a-fx.]+", host) else None
    except OSError:
        return None


def _plain(address: Address) -> Address:
    """The IPv4 address within an IPv6 one, where there is one."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return address


def _is_local(host: str, address: Address | None) -> bool:
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def _name(address: Address) -> str:
    return LOOPBACK if address.is_loopback else str(address)


class Guard:
    """Lets a client connect to what `access` allows, whatever a name resolves to and wherever a redirect leads."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._services: frozenset[tuple[str, int]] = frozenset()
        self._looked_up_at: float | None = None

    async def check(self, url: str) -> None:
        """Before each request, one that follows a redirect included. Raises NotAllowed."""
        self._access.check_url(url)
        loop = asyncio.get_running_loop()
        if self._looked_up_at is None or loop.time() - self._looked_up_at > AGAIN:
            self._looked_up_at = loop.time()
            self._services = frozenset([pair for each in self._access.services for pair in await _resolved(*each)])

    def socket(self, info: tuple[Any, ...]) -> socket.socket:
        """The socket for a connection that is about to be made. Raises Forbidden."""
        family, kind, protocol, _name, place = info
        if not self._access.hosts and family in (socket.AF_INET, socket.AF_INET6):
            self._access.check_address(ip_address(str(place[0]).partition("%")[0]), place[1], self._services)
        return socket.socket(family, kind, protocol)


async def _resolved(host: str, port: int) -> list[tuple[str, int]]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [(_name(_plain(ip_address(str(place[0]).partition("%")[0]))), port) for *_, place in found]


def check_address(url: str) -> None:
    """Refuse what the HTTP client would fail on with errors of its own. Not quoted: an address may hold a secret."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname and parts.hostname.encode("idna")) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not (usable and parts.scheme in ("http", "https") and url.isascii() and url.isprintable()):
        raise BadRequest("The endpoint's address is not of the form http(s)://host[:port]/path.")
