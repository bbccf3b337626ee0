"""The texts of a review form in all languages: read from a post, and as fields of the editor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.http import QueryDict
from django.utils.translation import get_language

from review.labels import translate
from review.rules.text import whole_number

Wordings = Mapping[str, Mapping[str, str]]  # language -> key -> text
OTHER_LANGUAGES = tuple(code for code, _name in settings.LANGUAGES if code != settings.LANGUAGE_CODE)


@dataclass(frozen=True, slots=True)
class PostedTexts:
    """The texts of a posted editor.

    `wordings` collects those in other languages (see `Form.wordings`).
    """

    data: QueryDict
    wordings: dict[str, dict[str, str]] = field(default_factory=lambda: {code: {} for code in OTHER_LANGUAGES})

    def text(self, name: str) -> str:
        """The text of a field, without carriage returns, NUL and surrounding whitespace."""
        return self.data.get(name, "").replace("\r\n", "\n").replace("\0", "").strip()

    def translated(self, name: str, key: str) -> str:
        """The English text of a field; its texts in other languages are collected under `key`."""
        for code in OTHER_LANGUAGES:
            if text := self.text(f"{name}.{code}"):
                self.wordings[code][key] = text
        return self.text(name)


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """A text field in all languages: `others` are (language, field name, text)."""

    name: str
    id: str
    text: str
    others: tuple[tuple[str, str, str], ...]
    error: str = ""


def posted_numbers(data: QueryDict, prefix: str, suffix: str) -> list[int]:
    """The numbers of the posted rows, in order: those between `prefix` and `suffix` in a name."""
    named = (name for name in data if name.startswith(prefix) and name.endswith(suffix))
    numbers = (whole_number(name[len(prefix) : -len(suffix)], 3) for name in named)
    return sorted({number for number in numbers if number is not None})


def in_own_language(wordings: Wordings, key: str, text: str) -> str:
    """A text of a form in the reader's language: as an admin has worded it, or translated."""
    return wordings.get(get_language() or "", {}).get(key) or translate(text)


def translated_text(wordings: Wordings, name: str, key: str, text: str) -> TranslatedText:
    """The field `name` of a text whose translations have the key `key` in `wordings`."""
    others = tuple((code, f"{name}.{code}", wordings.get(code, {}).get(key, "")) for code in OTHER_LANGUAGES)
    return TranslatedText(name, name.replace(".", "-"), text, others)
