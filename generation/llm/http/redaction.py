"""Keeps an endpoint's key out of what the endpoint says.

An endpoint knows the key that it was sent. A hostile one can say it back encoded or in pieces, so
that searching for the key itself finds nothing.
"""

import base64
import codecs
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

WITHHELD = "(not shown: the text contains the endpoint's key, or a part of it, in some form)"
PIECE = 8  # letters and digits in a row that give a key away, if it is long enough
LONG_ENOUGH = 16


def without_key(text: str, key: str) -> str:
    """The text with the key replaced; WITHHELD if a part of it, in any usual form, is still there.

    Compared are letters and digits alone, whatever their case and whatever lies between them.
    """
    text = text.replace(key, "***")
    pieces, size = _pieces(key)
    letters = _letters(text)
    found = any(letters[start : start + size] in pieces for start in range(len(letters) - size + 1))
    if found:
        return WITHHELD
    return text


@lru_cache(maxsize=64)
def _pieces(key: str) -> tuple[frozenset[str], int]:
    """All runs of a number of letters that a text must not contain, and this number."""
    forms = {_letters(form) for form in _forms(key)} - {""}
    shortest = min(map(len, forms), default=0)
    if shortest >= LONG_ENOUGH:
        size = PIECE
    else:
        size = max(shortest, 1)
    pieces: set[str] = set()
    for form in forms:
        pieces.update(form[start : start + size] for start in range(len(form) - size + 1))
    return frozenset(pieces), size


def _forms(key: str) -> Iterator[str]:
    """The key in the usual encodings, forwards and backwards."""
    for text in (key, key[::-1]):
        data = text.encode()
        yield text
        yield codecs.encode(text, "rot13")
        yield data.hex()
        yield data.hex()[::-1]
        for before, template in (
            ("", "{}"),
            ("x", "{:x}"),
            ("0x", "{:x}"),
            ("u", "{:04x}"),
            ("", "{:o}"),
            ("", "{:08b}"),
        ):
            yield "".join([before + template.format(byte) for byte in data])
        yield base64.b32encode(data).decode()
        yield base64.b85encode(data).decode()
        for offset in range(3):  # where in a longer text it begins, modulo 3
            encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")[offset * 2 :]
            yield from (encoded, encoded[::-1], encoded.replace("+", "-").replace("/", "_"))
            yield base64.b64encode(encoded.encode()).decode()


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
