"""In which language a text is: by a library, from its beginning, with its confidence.

The detector knows the languages below and no others, in its low-accuracy mode, and reads the first characters alone: so it
takes 60 MB and half a millisecond a record, where all its languages at full accuracy take 900 MB and ten times as long.
A text that it is not sure of stays unknown, as does one in a script of none of them. Of 80 characters of an English question
about medicine it is sure in one of thirty times that they are French or Romanian, so it reads 200, and of few it asks for more.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingua import LanguageDetector

READ = 200  # characters of a text
READ_ON = 600  # where those leave it unsure: rarely, and the time grows with them
SURE = 0.9
FEW = 80  # characters below which it has to be surer of a text without accents
SURE_OF_FEW = 0.99
FEWEST = 6  # letters below which nothing is said of a text in letters
CODES = (
    *("ar", "bn", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "he", "hi", "hu", "id", "it", "ja", "ko", "mr"),
    *("nl", "pl", "pt", "ro", "ru", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk", "ur", "vi", "yo", "zh"),
)
_LETTERS = re.compile(r"[^\W\d_]")
_ADDRESS = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class Detected:
    """A language (ISO 639-1), '' where it is unknown; and how sure the detector is of the likeliest, from 0 to 1."""

    language: str
    confidence: float


def detect(text: str) -> Detected:
    """The language of a text."""
    # Half of a surrogate pair is no text for the detector; a record that has one is refused later, with its reason.
    whole = text[: 4 * READ_ON].encode("utf-8", "replace").decode()
    beginning = " ".join(_ADDRESS.sub(" ", whole).split())[:READ_ON]
    letters = len(_LETTERS.findall(beginning))
    if not letters or (letters < FEWEST and beginning.isascii()):
        return Detected("", 0.0)
    found = _likeliest(beginning[:READ])
    return found if found.language or len(beginning) <= READ else _likeliest(beginning)


def _likeliest(text: str) -> Detected:
    likeliest = _detector().compute_language_confidence_values(text)[0]
    confidence = round(likeliest.value, 4)
    wanted = SURE if len(text) >= FEW or not text.isascii() else SURE_OF_FEW
    return Detected(likeliest.language.iso_code_639_1.name.lower() if confidence >= wanted else "", confidence)


@cache
def _detector() -> "LanguageDetector":
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [getattr(IsoCode639_1, code.upper()) for code in CODES]
    return LanguageDetectorBuilder.from_iso_codes_639_1(*codes).with_low_accuracy_mode().build()
