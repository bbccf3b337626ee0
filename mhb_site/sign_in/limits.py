"""Limits on failed sign-ins, counted by axes: per name and address, per address, and per name.

Passwords, second-factor codes, API tokens and signatures all count. docs/operations.md gives the
reasons.
"""

from datetime import timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from allauth.decorators import rate_limit
from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest
from django.utils import timezone

from review.models.usernames import normalize_username

BY_ADDRESS = 40  # failures from one address, whatever the names, within AXES_COOLOFF_TIME
# Failures with one name, whatever the addresses; ignored where the person signed in recently.
BY_NAME = 30
KNOWN_FOR = timedelta(days=30)  # how long an address stays known after a sign-in
NETWORK = 64  # bits of an IPv6 address that count: its owner can choose the others
MAX_NAME = 255  # characters of a name that axes stores

# A view that stores a session before anybody is known: an address opens it so often, by any method.
limit_beginnings = rate_limit(action="sign_in_begun", limit_get=True)


def attempted_name(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str:
    """The normalized name of a sign-in attempt (AXES_USERNAME_CALLABLE)."""
    if credentials is None:
        name = request.POST.get("login", "")
    else:
        name = credentials.get("username") or ""
    return normalize_username(name).strip().replace("\0", "")[:MAX_NAME]


def client_address(request: HttpRequest) -> str | None:
    """The client's address, or its network for IPv6 (AXES_CLIENT_IP_CALLABLE); None if unknown.

    `X-Forwarded-For` is read from the right, only as far as the proxies of MHB_TRUSTED_PROXIES
    wrote it.
    """
    address = _parse_address(request.META.get("REMOTE_ADDR", ""))
    forwarded_for = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    trusted: int | list[str] = settings.MHB_TRUSTED_PROXIES
    if isinstance(trusted, int):
        hops = []
        if 0 < trusted <= len(forwarded_for):
            hops = forwarded_for[-trusted:]
        forwarded = None
        if hops:
            forwarded = _parse_address(hops[0])
        return _network(forwarded or address)
    networks = [ip_network(proxy) for proxy in trusted]
    while address and forwarded_for and any(ip_address(address) in network for network in networks):
        before = _parse_address(forwarded_for.pop())
        if before is None:
            break
        address = before
    return _network(address)


def _parse_address(text: str) -> str | None:
    """Parse an address with or without a port; None if it is not one."""
    text = text.strip()
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        parsed = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = None
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
    return str(mapped or parsed)


def _network(address: str | None) -> str | None:
    if address is None or ":" not in address or ip_address(address).is_loopback:
        return address
    return str(ip_network((address, NETWORK), strict=False).network_address)


class SignInLimits(AxesDatabaseHandler):  # type: ignore[misc]
    """axes' handler with limits per address and per name.

    AXES_FAILURE_LIMIT applies to each name and address.
    """

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """The failures of this name and address; AXES_FAILURE_LIMIT if another limit is reached."""
        name, address = attempted_name(request, credentials), request.axes_ip_address  # type: ignore[attr-defined]
        recent = AccessAttempt.objects.filter(attempt_time__gte=get_cool_off_threshold(request))

        def failures(**filters: str | None) -> int:
            return int(recent.filter(**filters).aggregate(n=Sum("failures_since_start"))["n"] or 0)

        limit: int = settings.AXES_FAILURE_LIMIT
        if failures(ip_address=address) >= BY_ADDRESS:
            return limit
        if failures(username=name) >= BY_NAME and not self._is_known(name, address):
            return limit
        return failures(username=name, ip_address=address)

    @staticmethod
    def _is_known(name: str, address: str | None) -> bool:
        since = timezone.now() - KNOWN_FOR
        return bool(AccessLog.objects.filter(username=name, ip_address=address, attempt_time__gte=since).exists())
