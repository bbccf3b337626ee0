"""How large the body of a request may be, before a server keeps it on the disk."""

import copy
import re
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import DatabaseError
from django.utils import timezone
from knox.crypto import hash_token
from knox.models import AuthToken
from waitress.parser import HTTPRequestParser

MAX_BODY = 6 * 2**20  # bytes; Django itself reads 5 MiB of a form or of JSON
# The addresses that take files of any size; nginx.conf has them as well.
UPLOADS = re.compile(r"/(generation/sources|evaluation/runs/import|api/v1/imports|api/v1/runs/import)/")


class BoundedParser(HTTPRequestParser):  # type: ignore[misc]
    """Waitress's parser, which takes large bodies only of people who are signed in, for uploads."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        large = self.content_length > MAX_BODY or self.chunked
        if large and not (UPLOADS.fullmatch(self.path) and _is_signed_in(self.headers)):
            limits = copy.copy(self.adj)  # type: ignore[has-type]
            limits.max_request_body_size = MAX_BODY
            self.adj = limits


def _is_signed_in(headers: Mapping[str, str]) -> bool:
    prefix, _space, token = headers.get("AUTHORIZATION", "").partition(" ")
    try:
        if prefix.lower() == "bearer" and token.isascii():
            return bool(AuthToken.objects.filter(digest=hash_token(token), expiry__gt=timezone.now()).exists())
        cookie = SimpleCookie(headers.get("COOKIE", "")).get(settings.SESSION_COOKIE_NAME)
        return cookie is not None and SESSION_KEY in SessionStore(cookie.value).load()
    except (CookieError, DatabaseError, ValueError):
        return False
