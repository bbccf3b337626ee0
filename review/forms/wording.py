"""The texts of a review form in every language: as they are typed, and as the editor shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.http import QueryDict

OTHERS = tuple(code for code, _name in settings.LANGUAGES if code != settings.LANGUAGE_CODE)


@dataclass(frozen=True, slots=True)
class TypedTexts:
    """The texts of a posted editor. `words` collects those in other languages than English, as of `Form.wordings`."""

    data: QueryDict
    words: dict[str, dict[str, str]] = field(default_factory=lambda: {code: {} for code in OTHERS})

    def text(self, name: str) -> str:
        return self.data.get(name, "").replace("\r\n", "\n").replace("\0", "").strip()

    def worded(self, name: str, key: str) -> str:
        """The English text of a field; what stands in its other languages is kept under `key`."""
        for code in OTHERS:
            if typed := self.text(f"{name}.{code}"):
                self.words[code][key] = typed
        return self.text(name)


@dataclass(frozen=True, slots=True)
class Worded:
    """A text field in every language: `others` are (language, name of the field, text)."""

    name: str
    id: str
    text: str
    others: tuple[tuple[str, str, str], ...]
    error: str = ""


def worded(wordings: Mapping[str, Mapping[str, str]], name: str, key: str, text: str) -> Worded:
    """The field `name` of a text whose other languages stand under `key`."""
    others = tuple((code, f"{name}.{code}", wordings.get(code, {}).get(key, "")) for code in OTHERS)
    return Worded(name, name.replace(".", "-"), text, others)
