"""Detection of a text's language, from its beginning, with the confidence of the detector (lingua).

The detector knows only the languages below, runs in its low-accuracy mode and reads only the first
characters: this takes 60 MB and half a millisecond per record, where all its languages at full
accuracy take 900 MB and ten times as long. A text of which it is not sure stays unknown, as does a
text in a script that none of these languages uses. Given 80 characters of an English medical
question, one time in thirty it is sure that they are French or Romanian. It therefore reads 200,
and must be surer of a shorter text.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingua import LanguageDetector

READ_CHARS = 200
READ_MORE_CHARS = 600  # read if the first ones leave it unsure; rarely needed, and the time grows with them
SURE = 0.9
SHORT_TEXT = 80  # characters; below this, a text without accents needs the confidence below
SURE_OF_SHORT = 0.99
MIN_LETTERS = 6  # below this, the language of an ASCII text stays unknown
CODES = (
    *("ar", "bn", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "he", "hi", "hu", "id", "it", "ja", "ko", "mr"),
    *("nl", "pl", "pt", "ro", "ru", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk", "ur", "vi", "yo", "zh"),
)
_LETTERS = re.compile(r"[^\W\d_]")
_ADDRESS = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A language (ISO 639-1, '' if unknown), and the confidence in the likeliest, from 0 to 1."""

    language: str
    confidence: float


def detect(text: str) -> DetectedLanguage:
    """Detect the language of a text."""
    # The detector fails on half a surrogate pair; a record that has one is refused later, with a
    # reason.
    whole = text[: 4 * READ_MORE_CHARS].encode("utf-8", "replace").decode()
    beginning = " ".join(_ADDRESS.sub(" ", whole).split())[:READ_MORE_CHARS]
    letters = len(_LETTERS.findall(beginning))
    if not letters or (letters < MIN_LETTERS and beginning.isascii()):
        return DetectedLanguage("", 0.0)
    detected = _detect_likeliest(beginning[:READ_CHARS])
    if detected.language or len(beginning) <= READ_CHARS:
        return detected
    return _detect_likeliest(beginning)


def _detect_likeliest(text: str) -> DetectedLanguage:
    likeliest = _detector().compute_language_confidence_values(text)[0]
    confidence = round(likeliest.value, 4)
    threshold = SURE_OF_SHORT
    if len(text) >= SHORT_TEXT or not text.isascii():
        threshold = SURE
    return DetectedLanguage(
        likeliest.language.iso_code_639_1.name.lower() if confidence >= threshold else "", confidence
    )


@cache
def _detector() -> "LanguageDetector":
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [getattr(IsoCode639_1, code.upper()) for code in CODES]
    return LanguageDetectorBuilder.from_iso_codes_639_1(*codes).with_low_accuracy_mode().build()
