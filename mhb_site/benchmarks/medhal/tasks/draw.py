"""Random draws derived from a seed and a record: the same on every machine."""

import hashlib


def draw_index(count: int, seed: int, *parts: str) -> int:
    """An integer from 0 to `count` - 1, drawn by the seed and `parts`."""
    text = "\x1f".join((str(seed), *parts))
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8]) % count
