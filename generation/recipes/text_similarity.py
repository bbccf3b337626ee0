"""Compares texts before physicians see a sample: is it a duplicate, does it give its trap away?

Likeness is the Jaccard index of shingles, estimated by MinHash and looked up by bands
(locality-sensitive hashing), so that a sample is compared with the few that share a band with it
and never with all. Broder 1997, On the resemblance and containment of documents; Leskovec,
Rajaraman, Ullman, Mining of Massive Datasets, ch. 3.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from generation.common.medical_text import words

if TYPE_CHECKING:
    import numpy as np

IDENTICAL, NEARLY_IDENTICAL = "identical", "alike"

SHINGLE = 4  # tokens
BANDS, ROWS = 16, 4  # texts with a likeness of 0.8 share a band in 99.98% of cases, of 0.3 in 12%
LIKENESS_THRESHOLD = 0.8  # estimated from 64 hashes, with a standard error of 0.05 at this value

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+")


def _tokens(text: str) -> list[str]:
    """The words of shingles, which must never change, or stored signatures could not be compared.

    They lose signs, decimals and exponents, which a likeness need not tell apart.
    """
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


@dataclass(frozen=True, slots=True)
class TextFingerprint:
    """What is stored to find similar texts: the words' hash, the MinHash signature, its bands."""

    digest: str
    signature: bytes
    bands: tuple[int, ...]


def fingerprint(text: str) -> TextFingerprint:
    """The fingerprint of a text.

    Texts that read the same (`medical_text.words`) have the same digest.
    """
    import numpy as np

    digest = hashlib.sha256("\x1f".join(words(text)).encode("utf-8", "surrogatepass")).hexdigest()
    tokens = _tokens(text)
    shingles = {"\x1f".join(tokens[at : at + SHINGLE]) for at in range(max(1, len(tokens) - SHINGLE + 1))}
    shingle_hashes = np.array([_hash(shingle, 4) for shingle in shingles], dtype=np.uint64)
    factors, offsets = _hash_functions()
    # ((a x + b) mod 2^64) >> 32: multiply-shift hashing, Dietzfelbinger et al. 1997.
    signature = ((factors[:, None] * shingle_hashes[None, :] + offsets[:, None]) >> np.uint64(32)).min(axis=1)
    signature_bytes = signature.astype("<u4").tobytes()
    width = ROWS * 4
    bands = []
    for band in range(BANDS):
        rows = bytes([band]) + signature_bytes[band * width : (band + 1) * width]
        number = int.from_bytes(hashlib.blake2b(rows, digest_size=8).digest())
        bands.append(number - 2**63)  # to the range of a database's signed integers
    return TextFingerprint(digest, signature_bytes, tuple(bands))


def _hash(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest())


@cache
def _hash_functions() -> "tuple[np.ndarray[Any, np.dtype[np.uint64]], np.ndarray[Any, np.dtype[np.uint64]]]":
    """The hash functions. They must never change, or stored signatures could not be compared."""
    import numpy as np

    numbers = [_hash(f"minhash {n}", 8) for n in range(2 * BANDS * ROWS)]
    family = np.array(numbers, dtype=np.uint64)
    return family[::2] | np.uint64(1), family[1::2]


def likeness(one: bytes, other: bytes) -> float:
    """The Jaccard index estimated from two signatures, from 0 to 1."""
    import numpy as np

    return float(np.mean(np.frombuffer(one, "<u4") == np.frombuffer(other, "<u4")))


def word_overlap(one: str, other: str) -> float:
    """The share of words that two short texts have in common, from 0 to 1.

    It is Dice's coefficient over their words.
    """
    first, second = Counter(words(one)), Counter(words(other))
    total = first.total() + second.total()
    if total:
        return 2 * (first & second).total() / total
    return 0.0


# ------------------------------------------------------------------------------------------- ROUGE

OURS = "_words"  # the end of the names of ROUGE over our words


def rouge_names(kinds: Sequence[str]) -> list[str]:
    """The names of what `rouge` returns."""
    return [*kinds, *(f"{kind}{OURS}" for kind in kinds)]


def rouge(candidate: str, truth: str, kinds: tuple[str, ...]) -> dict[str, float]:
    """The F-measures of rouge-score without stemming, from 0 to 1, to six decimals.

    Each kind ('rouge1', 'rouge2', 'rougeL') over rouge-score's own words, as published figures are:
    runs of a-z and 0-9, so that 50 µg is 50 g and Chinese is nothing. Under the kind's name with
    `OURS`, over the words of `medical_text`.
    """
    published, own = rouge_scorers(kinds)
    measures = {}
    for kind, score in published.score(truth, candidate).items():
        measures[kind] = round(float(score.fmeasure), 6)
    for kind, score in own.score(truth, candidate).items():
        measures[f"{kind}{OURS}"] = round(float(score.fmeasure), 6)
    return measures


@cache
def rouge_scorers(kinds: tuple[str, ...]) -> tuple[Any, Any]:
    """Scorers over rouge-score's words and over ours; the import takes seconds."""
    from rouge_score.rouge_scorer import RougeScorer

    own_words = SimpleNamespace(tokenize=words)
    return RougeScorer(list(kinds)), RougeScorer(list(kinds), tokenizer=own_words)


# ------------------------------------------------------------------------------------------- leaks

MIN_LEAK = 6.0  # words, by `_weight`


@dataclass(frozen=True, slots=True)
class Leak:
    """Words of a description that also occur in the sample itself."""

    words: str
    share: float  # of the description, by weight


def longest_leak(description: str, text: str, *, source: str = "", min_share: float) -> Leak | None:
    """The longest run of words `text` shares with `description`; None unless it gives away enough.

    Enough is `min_share` of the description and at least `MIN_LEAK` words. Words that also occur in
    `source` do not count, because a description may quote its source.
    """
    described = words(description)
    if not described or _weight(described) < MIN_LEAK:
        return None
    run = _longest_run(described, words(text), words(source))
    share = _weight(run) / _weight(described)
    if _weight(run) < MIN_LEAK or share < min_share:
        return None
    separator = " "
    if unicodedata.east_asian_width(run[0][0]) in "WF":
        separator = ""
    return Leak(separator.join(run), share)


def _longest_run(described: Sequence[str], text: Sequence[str], source: Sequence[str]) -> list[str]:
    """The longest run of `described` that is in `text` and not in `source`.

    Tried from the longest length down: a description has a few dozen words.
    """
    for length in range(len(described), 0, -1):
        runs = [tuple(described[at : at + length]) for at in range(len(described) - length + 1)]
        if _weight(max(runs, key=_weight)) < MIN_LEAK:
            break
        leaked = _runs(text, length, set(runs))
        if leaked:
            leaked -= _runs(source, length, leaked)
        for run in runs:
            if run in leaked:
                return list(run)
    return []


def _runs(text: Sequence[str], length: int, candidates: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The runs of `length` words in `text` that are among `candidates`."""
    first_words = {run[0] for run in candidates}
    found = set()
    for at in range(len(text) - length + 1):
        if text[at] in first_words:
            run = tuple(text[at : at + length])
            if run in candidates:
                found.add(run)
    return found


def _weight(run: Iterable[str]) -> float:
    """The length in words; a character of a script without spaces counts as half a word."""
    weight = 0.0
    for word in run:
        if len(word) == 1 and unicodedata.east_asian_width(word) in "WF":
            weight += 0.5
        else:
            weight += 1.0
    return weight
