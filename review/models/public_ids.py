"""Public IDs that physicians see instead of primary keys: unordered, but constant for each row.

A calibration copy is created when it is claimed and so has the newest keys: keys in URLs or in the
API would distinguish it from real work. Each key is put through a permutation of 128-bit blocks
that cannot be computed without the site's secret (four Feistel rounds of HMAC-SHA-256, after Luby
and Rackoff 1988), so nothing has to be stored or looked up.
"""

import hmac
from functools import lru_cache
from hashlib import sha256

from django.conf import settings
from django.urls import register_converter

ROUNDS = 4
HALF = 8  # bytes
MASK = (1 << 8 * HALF) - 1


class PublicId:
    """Path converter between primary keys and 32 hexadecimal digits, specific to a `table`."""

    regex = "[0-9a-f]{32}"
    table = ""

    def __init__(self, secret: str = "") -> None:
        self._secret = secret  # empty: SECRET_KEY of this site

    def to_url(self, value: int | str) -> str:
        """The public ID of a primary key; a public ID (a string) is returned unchanged."""
        if isinstance(value, str):
            return value
        return _public(self._secret or settings.SECRET_KEY, self.table, value)

    def to_python(self, value: str) -> int:
        """The primary key of a public ID.

        Raises ValueError if invalid, so that Django answers 404.
        """
        return _primary(self._secret or settings.SECRET_KEY, self.table, value)


@lru_cache(maxsize=1024)  # a page contains fifteen URLs of its assignment
def _public(secret: str, table: str, key: int) -> str:
    left, right = 0, key
    for number in range(ROUNDS):
        left, right = right, left ^ _mix(secret, table, number, right)
    return f"{left << 8 * HALF | right:032x}"


@lru_cache(maxsize=1024)  # each save of a draft sends it again
def _primary(secret: str, table: str, value: str) -> int:
    left, right = int(value, 16) >> 8 * HALF, int(value, 16) & MASK
    for number in reversed(range(ROUNDS)):
        left, right = right ^ _mix(secret, table, number, left), left
    if left or right >> 63:
        raise ValueError(value)
    return right


def _mix(secret: str, table: str, number: int, half: int) -> int:
    message = f"mhb.public_ids/{table}/{number}/{half}".encode()
    return int.from_bytes(hmac.digest(secret.encode(), message, sha256)[:HALF])


class AssignmentId(PublicId):
    table = "assignment"


class CaseId(PublicId):
    table = "case"


register_converter(AssignmentId, "assignment")
register_converter(CaseId, "case")
