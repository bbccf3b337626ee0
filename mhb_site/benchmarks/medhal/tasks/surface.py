"""An altered sentence in the spelling, spacing and punctuation of the original.

Models put single spaces, straight quotes and capitals where the source has others, so that an
altered text would give itself away without being read.
"""

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

_TOKEN = re.compile(r"\w+|[^\w\s]")
_TAIL = re.compile(r"[.!?;:][\"')\]”’]*\Z")
_QUOTES = "\"'“”‘’`"
_ALIKE = str.maketrans({**dict.fromkeys("“”„«»", '"'), **dict.fromkeys("‘’`´", "'"), **dict.fromkeys("‐‑–—−", "-")})


def match_surface(altered: str, original: str) -> str:
    """The altered sentence, with the original's characters wherever both say the same."""
    text = " ".join(altered.split())
    if original[:1] not in _QUOTES and text[:1] in _QUOTES:
        text = text.strip(_QUOTES)
    text = _TAIL.sub("", text).rstrip()
    tail = _TAIL.search(original)
    if tail:
        text += tail[0]
    if original == original.lower():
        text = text.lower()
    elif original[:1].islower() != text[:1].islower() and original[:1].isalpha():
        text = text[:1].swapcase() + text[1:]
    return _with_spacing(text, original)


def same_spacing(altered: str, original: str) -> bool:
    """Whether both have the same unusual spaces, as often."""
    return _unusual_spaces(altered) == _unusual_spaces(original)


def _unusual_spaces(text: str) -> list[str]:
    return sorted(gap for gap in re.findall(r"\s+", text) if gap != " ")


def _with_spacing(text: str, original: str) -> str:
    old_gaps, old_tokens = _tokens(original)
    new_gaps, new_tokens = _tokens(text)
    old_keys = [_key(token) for token in old_tokens]
    new_keys = [_key(token) for token in new_tokens]
    matcher = SequenceMatcher(None, old_keys, new_keys, autojunk=False)
    result = ""
    pending = ""  # the original's space after a token that has no counterpart
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            gaps = old_gaps[start:end]
            if not new_start:
                gaps[0] = ""
            elif pending not in ("", " ") and gaps[0] == " ":
                gaps[0] = pending
            result += _joined(gaps, old_tokens[start:end])
            pending = ""
            continue
        own, theirs = new_gaps[new_start:new_end], old_gaps[start:end]
        if own and theirs:
            own[0] = theirs[0]
            unusual = [gap for gap in theirs[1:] if gap not in ("", " ")]
            for position in range(1, len(own)):
                if own[position] == " " and unusual:
                    own[position] = unusual.pop(0)
            pending = ""
            if unusual:
                pending = unusual[0]
        elif theirs:
            pending = max(theirs, key=len)
        if not new_start and own:
            own[0] = ""
        result += _joined(own, new_tokens[new_start:new_end])
    return result


def _tokens(text: str) -> tuple[list[str], list[str]]:
    """The space before each word and sign of a text, and these words and signs."""
    gaps, tokens, end = [], [], 0
    for match in _TOKEN.finditer(text):
        gaps.append(text[end : match.start()])
        tokens.append(match[0])
        end = match.end()
    return gaps, tokens


def _joined(gaps: Sequence[str], tokens: Sequence[str]) -> str:
    return "".join(gap + token for gap, token in zip(gaps, tokens, strict=True))


def _key(token: str) -> str:
    return unicodedata.normalize("NFKC", token).translate(_ALIKE).casefold()
