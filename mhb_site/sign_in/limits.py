"""How often somebody may fail to sign in, counted by axes: for each name from an address, each address, and each name.

Passwords, codes of second factors, tokens of the API and signatures all count here. docs/operations.md says why so.
"""

from datetime import timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest
from django.utils import timezone

from review.models.usernames import normal

BY_ADDRESS = 40  # failures from one address, whatever the names, within AXES_COOLOFF_TIME
BY_NAME = 30  # failures with one name, whatever the addresses; not from where the person has signed in of late
KNOWN_FOR = timedelta(days=30)  # how long an address is known as one from which a person has signed in
NETWORK = 64  # bits of an IPv6 address that count: the rest is free for the network's owner
LONGEST = 255  # characters that axes keeps of a name


def attempted_name(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str:
    """The name that somebody tries to sign in with, in its normal form (AXES_USERNAME_CALLABLE)."""
    said = request.POST.get("login", "") if credentials is None else credentials.get("username") or ""
    return normal(said).strip().replace("\0", "")[:LONGEST]


def client_address(request: HttpRequest) -> str | None:
    """The address that a request comes from, of IPv6 its network (AXES_CLIENT_IP_CALLABLE). None: it has none.

    `X-Forwarded-For` is read from the right, where the proxies of MHB_TRUSTED_PROXIES have written, and no further.
    """
    address = _address(request.META.get("REMOTE_ADDR", ""))
    said = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    trusted: int | list[str] = settings.MHB_TRUSTED_PROXIES
    if isinstance(trusted, int):
        hops = said[-trusted:] if 0 < trusted <= len(said) else []
        forwarded = _address(hops[0]) if hops else None
        return _network(forwarded or address)
    networks = [ip_network(each) for each in trusted]
    while address and said and any(ip_address(address) in network for network in networks):
        before = _address(said.pop())
        if before is None:
            break
        address = before
    return _network(address)


def _address(text: str) -> str | None:
    """An address as it is written, with or without a port; None: it is none."""
    text = text.strip()
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _network(address: str | None) -> str | None:
    if address is None or ":" not in address or ip_address(address).is_loopback:
        return address
    return str(ip_network((address, NETWORK), strict=False).network_address)


class Limits(AxesDatabaseHandler):  # type: ignore[misc]
    """axes' handler, with a limit for each address and each name beside AXES_FAILURE_LIMIT for a name from an address."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """The failures of this name from this address; AXES_FAILURE_LIMIT where another limit is reached."""
        name, address = attempted_name(request, credentials), request.axes_ip_address  # type: ignore[attr-defined]
        recent = AccessAttempt.objects.filter(attempt_time__gte=get_cool_off_threshold(request))

        def failures(**of: str | None) -> int:
            return int(recent.filter(**of).aggregate(n=Sum("failures_since_start"))["n"] or 0)

        limit: int = settings.AXES_FAILURE_LIMIT
        if failures(ip_address=address) >= BY_ADDRESS:
            return limit
        if failures(username=name) >= BY_NAME and not self._known(name, address):
            return limit
        return failures(username=name, ip_address=address)

    @staticmethod
    def _known(name: str, address: str | None) -> bool:
        since = timezone.now() - KNOWN_FOR
        return bool(AccessLog.objects.filter(username=name, ip_address=address, attempt_time__gte=since).exists())
