"""How large the body of a request may be, before a server keeps it on the disk."""

import copy
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from weakref import WeakSet

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.db import DatabaseError
from django.http import HttpRequest
from django.utils import timezone
from knox.crypto import hash_token
from knox.models import AuthToken
from waitress.parser import HTTPRequestParser

from review.common.provider_accounts import is_confirmed
from review.rules.permissions import Can, allowed

MAX_UNKNOWN_BODY = 64 * 1024  # bytes of a request by nobody in particular: a form to sign in
MAX_BODY = 6 * 2**20  # bytes; Django itself reads 5 MiB of a form or of JSON
# The addresses that take files of any size by POST, and who may send them; so does nginx.conf.
UPLOADS = {
    "/generation/sources/": Can.PRODUCE,
    "/evaluation/runs/import/": Can.MEASURE,
    "/api/v1/imports/": Can.PRODUCE,
    "/api/v1/runs/import/": Can.MEASURE,
}
OPEN_BODIES = 4  # above MAX_UNKNOWN_BODY, that one person may be sending at once; also in nginx.conf


def may_upload(user: object, path: str) -> bool:
    """Whether this account may send a file of any size to this address."""
    return path in UPLOADS and allowed(user, UPLOADS[path])


class BoundedParser(HTTPRequestParser):  # type: ignore[misc]
    """Waitress's parser: it takes long bodies of accounts alone, a few at once, and large ones of
    people who may upload.
    """

    _open: "WeakSet[BoundedParser]" = WeakSet()  # long bodies; one that is cut off is collected
    person: int | None = None

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if self.content_length > MAX_UNKNOWN_BODY or self.chunked:
            user = _account(self.headers)
            if not getattr(user, "is_active", False) or not self._is_one_of_few(user):
                self._limit(MAX_UNKNOWN_BODY)
            elif self.command != "POST" or not may_upload(user, self.path):
                self._limit(MAX_BODY)

    def _limit(self, most: int) -> None:
        limits = copy.copy(self.adj)  # type: ignore[has-type]
        limits.max_request_body_size = most
        self.adj = limits

    def _is_one_of_few(self, user: object) -> bool:
        """Whether this person sends no more than a few long bodies at once; this one is counted."""
        person = getattr(user, "pk", None)
        arriving = [parser for parser in self._open if parser.person == person and not parser.completed]
        if len(arriving) >= OPEN_BODIES:
            return False
        self.person = person
        self._open.add(self)
        return True


def _account(headers: Mapping[str, str]) -> object:
    """The account of the token or session in a request's headers; None without one."""
    prefix, _space, token = headers.get("AUTHORIZATION", "").partition(" ")
    try:
        if prefix.lower() == "bearer" and token.isascii():
            valid = AuthToken.objects.filter(digest=hash_token(token), expiry__gt=timezone.now())
            found = valid.select_related("user").first()
            if found and is_confirmed(found.user):
                return found.user
            return None
        cookie = SimpleCookie(headers.get("COOKIE", "")).get(settings.SESSION_COOKIE_NAME)
        if cookie is None:
            return None
        request = HttpRequest()
        request.session = SessionStore(cookie.value)
        return get_user(request)
    except (CookieError, DatabaseError, ValueError):
        return None
