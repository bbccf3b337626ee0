"""What pages offer: nobody is shown a link, form or button that the site refuses to their role.

Each role follows every link from its start page, as far as one address per route, and posts every
form where its buttons lead. A link must open; a form that is posted empty may be refused for any
reason but the role.
"""

from collections import defaultdict
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve

from tests.site.test_permissions import AUDITOR, PEOPLE, signed_in, world
from tests.site.world import World

__all__ = ["world"]

SAME_ROUTE = 6  # addresses of one route that are looked at: rows differ in what can be done with them
ENDS_THE_SESSION = ("/accounts/logout/",)


class Offers(HTMLParser):
    """The addresses that a page offers: to read, and to post to. Disabled fields offer nothing."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.posts: set[str] = set()
        self._action: str | None = None
        self._disabled: list[bool] = []
        self._page = page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag == "form" and values.get("method") == "post":
            self._action = values.get("action", "")
        elif tag == "fieldset":
            self._disabled.append("disabled" in values)
        if any(self._disabled):
            return
        if "hx-get" in values:
            self.links.add(values["hx-get"])
        if "hx-post" in values:
            self.posts.add(values["hx-post"])
        if tag == "button" and self._action is not None and "disabled" not in values and values.get("type") != "button":
            self.posts.add(values.get("formaction", self._action))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._action = None
        elif tag == "fieldset":
            self._disabled.pop()


class Walk:
    """One role's walk over all that pages offer it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: dict[str, set[str]] = defaultdict(set)
        self.refused: list[str] = []
        self.posted = 0

    def _is_new(self, method: str, address: str) -> bool:
        """Whether to request this address: it is the site's, and not one of many of its route."""
        try:
            route = f"{method} {resolve(urlsplit(address).path).route}"
        except Resolver404:
            return False
        if "admin/" in route or address in self._seen[route] or len(self._seen[route]) == SAME_ROUTE:
            return False
        self._seen[route].add(address)
        return True

    def start(self, address: str) -> None:
        waiting = [(address, "the start")]
        while waiting:
            address, page = waiting.pop()
            if not self._is_new("GET", address):
                continue
            response: Any = self._client.get(address, follow=True)
            if response.status_code >= 400:
                self.refused.append(f"{page} links to {address} ({response.status_code})")
            if response.status_code != 200 or not response.get("Content-Type", "").startswith("text/html"):
                continue
            address = response.redirect_chain[-1][0] if response.redirect_chain else address
            offers = Offers(address)
            offers.feed(response.content.decode())
            for link in sorted(offers.links):
                target = urldefrag(urljoin(address, link)).url
                if not urlsplit(target).netloc:
                    waiting.append((target, address))
            for action in sorted(offers.posts):
                self._post(urljoin(address, action), address)

    def _post(self, address: str, page: str) -> None:
        if address in ENDS_THE_SESSION or not self._is_new("POST", address):
            return
        self.posted += 1
        with transaction.atomic():
            status = self._client.post(address).status_code
            if status in (403, 405):
                self.refused.append(f"{page} posts to {address} ({status})")
            transaction.set_rollback(True)


@pytest.mark.parametrize("name", [*PEOPLE, AUDITOR])
def test_no_page_offers_what_the_role_may_not_do(world: World, name: str) -> None:
    walk = Walk(signed_in(world, name))
    walk.start("/")
    assert "\n".join(sorted(walk.refused)) == ""
    assert walk.posted >= 5, "the walk saw hardly anything"
