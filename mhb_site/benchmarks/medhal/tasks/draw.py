"""Lots that a seed and a record decide: the same on every machine."""

import hashlib


def drawn(count: int, seed: int, *parts: str) -> int:
    """A whole number from 0 to `count` - 1."""
    text = "\x1f".join((str(seed), *parts))
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8]) % count
