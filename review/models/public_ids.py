"""Numbers that physicians may see in place of primary keys: without order, and the same for the same row.

A copy for training is made when it is claimed, so its keys are the newest of all: keys shown in an address or over the
API would tell it from work. Each key is put through a permutation of 128-bit blocks that nobody without the site's secret can
follow (four Feistel rounds of HMAC-SHA-256, after Luby and Rackoff 1988), so nothing has to be stored or looked up.
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
    """A path converter: primary keys inside, 32 hexadecimal digits outside. Each `table` has numbers of its own."""

    regex = "[0-9a-f]{32}"
    table = ""

    def __init__(self, secret: str = "") -> None:
        self._secret = secret  # empty: this site's own

    def to_url(self, value: int | str) -> str:
        """The public number of a primary key; one that is public already stays as it is."""
        if isinstance(value, str):
            return value
        return _public(self._secret or settings.SECRET_KEY, self.table, value)

    def to_python(self, value: str) -> int:
        """Raises ValueError for what was never handed out, which Django takes for an address that there is not."""
        return _primary(self._secret or settings.SECRET_KEY, self.table, value)


@lru_cache(maxsize=1024)  # a page names its assignment in fifteen addresses
def _public(secret: str, table: str, key: int) -> str:
    left, right = 0, key
    for number in range(ROUNDS):
        left, right = right, left ^ _mix(secret, table, number, right)
    return f"{left << 8 * HALF | right:032x}"


@lru_cache(maxsize=1024)  # and each draft of it
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
