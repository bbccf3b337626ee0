"""The texts of a review form in all languages: read from a post, and as fields of the editor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.http import QueryDict

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


def translated_text(wordings: Mapping[str, Mapping[str, str]], name: str, key: str, text: str) -> TranslatedText:
    """The field `name` of a text whose translations have the key `key` in `wordings`."""
    others = tuple((code, f"{name}.{code}", wordings.get(code, {}).get(key, "")) for code in OTHER_LANGUAGES)
    return TranslatedText(name, name.replace(".", "-"), text, others)
