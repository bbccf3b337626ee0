"""The tokens of a text, as probes read them."""

import re
import unicodedata
from itertools import pairwise
from sys import intern

# Scripts that write no spaces between words: Chinese, Japanese, Thai, Lao, Tibetan, Burmese, Khmer.
_UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
WORDS, CHARACTERS = 2, 3  # the longest n-grams


def tokens(text: str) -> list[str]:
    """The words of a text without case; in scripts without spaces, its characters."""
    # One object for each word, however often it occurs: most of the memory is words.
    return [intern(word) for word in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())]


def is_unspaced(token: str) -> bool:
    """Whether a token is a character of a script without spaces."""
    return _IS_UNSPACED.match(token) is not None


def ngrams(words: list[str]) -> list[str]:
    """Words and pairs of words; in scripts without spaces, runs of one to three characters."""
    grams = list(words)
    grams += [f"{first} {second}" for first, second in pairwise(words)]
    for first, second, third in zip(words, words[1:], words[2:], strict=False):
        if is_unspaced(first) and is_unspaced(second) and is_unspaced(third):
            grams.append(f"{first} {second} {third}")
    return grams


def shown(gram: str) -> str:
    """An n-gram as people read it: characters of a script without spaces are joined."""
    parts = gram.split(" ")
    if is_unspaced(parts[0]):
        return "".join(parts)
    return " ".join(parts)
