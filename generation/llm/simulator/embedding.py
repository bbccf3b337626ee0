"""The simulated embedding: words hashed into a few dimensions; texts with the same words are close.

Feature hashing: Weinberger et al. 2009, Feature Hashing for Large Scale Multitask Learning.
"""

import hashlib
import math
import re

DIMENSIONS = 48

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")


def embed_text(text: str) -> list[float]:
    """A vector of length 1, the same for the same words in any order and case."""
    vector = [0.0] * DIMENSIONS
    for word in _WORD.findall(text.casefold()) or [""]:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest)
        sign = -1.0
        if number >> 63:
            sign = 1.0
        vector[number % DIMENSIONS] += sign
    length = math.sqrt(sum(value * value for value in vector))
    if not length:  # the words cancel one another out
        return [1.0, *vector[1:]]
    return [value / length for value in vector]
