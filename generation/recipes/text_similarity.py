"""What is looked at before physicians see a sample: does the text occur already, does it give its trap away. Plain Python.

Likeness is the Jaccard index of shingles, estimated by MinHash and looked up by bands (locality-sensitive hashing), so that
a sample is compared with the few that share a band with it and never with all.
Broder 1997, On the resemblance and containment of documents; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, ch. 3.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

IDENTICAL, ALIKE = "identical", "alike"

SHINGLE = 4  # tokens
BANDS, ROWS = 16, 4  # two texts with a likeness of 0.8 share a band in 99.98 of 100 cases, of 0.3 in 12
ALIKE_FROM = 0.8  # estimated from 64 hashes: standard error 0.05 there

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+")


def tokens(text: str) -> list[str]:
    """Words without case, signs and spacing; scripts without spaces by the character."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What of a text is kept to find it again: the hash of its words, its MinHash signature and the bands of that."""

    digest: str
    signature: bytes
    bands: tuple[int, ...]


def fingerprint(text: str) -> Fingerprint:
    """The fingerprint of a text; texts that differ in case, spacing and punctuation alone have the same."""
    import numpy as np

    words = tokens(text)
    digest = hashlib.sha256("\x1f".join(words).encode("utf-8", "surrogatepass")).hexdigest()
    shingles = {"\x1f".join(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}
    hashed = np.array([_hash32(shingle) for shingle in shingles], dtype=np.uint64)
    factors, summands = _family()
    # ((a x + b) mod 2^64) >> 32: multiply-shift hashing, Dietzfelbinger et al. 1997.
    signature = ((factors[:, None] * hashed[None, :] + summands[:, None]) >> np.uint64(32)).min(axis=1)
    raw = signature.astype("<u4").tobytes()
    width = ROWS * 4
    bands = tuple(
        int.from_bytes(hashlib.blake2b(bytes([band]) + raw[band * width : (band + 1) * width], digest_size=8).digest())
        - 2**63  # what a database's signed integer holds
        for band in range(BANDS)
    )
    return Fingerprint(digest, raw, bands)


def _hash32(shingle: str) -> int:
    return int.from_bytes(hashlib.blake2b(shingle.encode("utf-8", "surrogatepass"), digest_size=4).digest())


@cache
def _family() -> "tuple[np.ndarray[Any, np.dtype[np.uint64]], np.ndarray[Any, np.dtype[np.uint64]]]":
    """The hash functions: the same for ever, or stored signatures could not be compared."""
    import numpy as np

    numbers = [
        int.from_bytes(hashlib.blake2b(f"minhash {n}".encode(), digest_size=8).digest())
        for n in range(2 * BANDS * ROWS)
    ]
    family = np.array(numbers, dtype=np.uint64)
    return family[::2] | np.uint64(1), family[1::2]


def likeness(one: bytes, other: bytes) -> float:
    """The estimated Jaccard index of two signatures, from 0 to 1."""
    import numpy as np

    return float(np.mean(np.frombuffer(one, "<u4") == np.frombuffer(other, "<u4")))


def alike(one: str, other: str) -> float:
    """The share of words that two short texts have in common (Dice's coefficient over their words), from 0 to 1."""
    some, others = Counter(tokens(one)), Counter(tokens(other))
    whole = some.total() + others.total()
    return 2 * (some & others).total() / whole if whole else 0.0


# ------------------------------------------------------------------------------------------------------------- leaks

LEAST_RUN = 6.0  # words; a character of a script without spaces counts for half of one


@dataclass(frozen=True, slots=True)
class Leak:
    """Words of a description that stand in the sample itself."""

    words: str
    share: float  # of the description


def leak(described: str, text: str, *, besides: str = "", share: float) -> Leak | None:
    """The longest run of words that `text` has in common with `described`, if it gives away enough of it.

    Enough is `share` of the description and at least `LEAST_RUN` words. What stands in `besides` (the source) as well does
    not count: a description may quote it.
    """
    words = tokens(described)
    if not words or _weight(words) < LEAST_RUN:
        return None
    run = _longest_run(words, tokens(text), tokens(besides))
    part = _weight(run) / _weight(words)
    if _weight(run) < LEAST_RUN or part < share:
        return None
    return Leak(_joined(run), part)


def _longest_run(words: Sequence[str], text: Sequence[str], besides: Sequence[str]) -> list[str]:
    """By lengths from the longest: a description has some tens of words, and its runs are looked up in two sets."""
    for length in range(len(words), 0, -1):
        runs = [tuple(words[at : at + length]) for at in range(len(words) - length + 1)]
        if _weight(max(runs, key=_weight)) < LEAST_RUN:
            break
        there = _runs(text, length, set(runs))
        there -= _runs(besides, length, there) if there else set()
        for run in runs:
            if run in there:
                return list(run)
    return []


def _runs(words: Sequence[str], length: int, wanted: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    firsts = {run[0] for run in wanted}
    return {
        run
        for at in range(len(words) - length + 1)
        if words[at] in firsts and (run := tuple(words[at : at + length])) in wanted
    }


def _weight(words: Iterable[str]) -> float:
    return sum(0.5 if len(word) == 1 and unicodedata.east_asian_width(word) in "WF" else 1.0 for word in words)


def _joined(words: Sequence[str]) -> str:
    wide = words and unicodedata.east_asian_width(words[0][0]) in "WF"
    return ("" if wide else " ").join(words)
