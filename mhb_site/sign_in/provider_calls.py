"""Calls to providers of identities, bounded: one that hangs must not hold the site's threads."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import requests

from review.errors import ProviderAway

FRESH = 300.0  # seconds in which a discovery document is not asked for again
SECONDS = (2.0, 2.0)  # to connect, and of silence while a provider answers
WAIT = 1.0  # seconds for the call that is under way to end
REST = 5.0  # seconds in which a provider that did not answer is not asked
DISCOVERY = "/.well-known/openid-configuration"


class ProviderSession(requests.Session):
    """A session that keeps discovery documents and makes one call at a time in this process.

    `request` raises ProviderAway if the provider does not answer, has not just before, or is being
    asked by another thread for more than `WAIT`.
    """

    _calling = threading.Lock()
    _discovered: dict[str, tuple[float, requests.Response]] = {}  # of all sessions
    _away_until: dict[str, float] = {}  # host -> moment
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def request(self, method: str, url: str | bytes, *args: Any, **options: Any) -> requests.Response:
        address = str(url)
        kept_at, kept = self._discovered.get(address, (0.0, None))
        if kept is not None and self.clock() - kept_at < FRESH:
            return kept
        options["timeout"] = SECONDS
        try:
            answer = self._call(address, partial(super().request, method, url, *args, **options))
        except ProviderAway:
            if kept is not None:  # its addresses and keys seldom change
                return kept
            raise
        if address.endswith(DISCOVERY) and answer.ok:
            self._discovered[address] = self.clock(), answer
        return answer

    def _call(self, address: str, send: Callable[[], requests.Response]) -> requests.Response:
        host = urlsplit(address).netloc
        if not self._calling.acquire(timeout=WAIT):
            raise ProviderAway
        try:
            if self.clock() < self._away_until.get(host, 0.0):
                raise ProviderAway
            return send()
        except requests.RequestException as error:
            self._away_until[host] = self.clock() + REST
            raise ProviderAway from error
        finally:
            self._calling.release()
