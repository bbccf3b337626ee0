"""Records by declaration: their columns as a pydantic model, and why one of them is refused."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from generation.sources.importers.base import NOT_UTF_8, Malformed, checked_id, id_text
from review.rules.text_files import yes_or_no

_NO_VALUE = frozenset({"", "none", "null", "nan"})  # how tables write a missing value

MAX_OPTIONS = 26
LETTERED = re.compile(r"^\s*+\(?([A-Za-z])\s*+[.):：、]\s*")

# ----------------------------------------------------------------------------- the types of columns


def told(value: Any) -> Any:
    """The text in a cell, '' for none; a number as a text, and other values unchanged."""
    if value is None or value != value:
        return ""
    if not isinstance(value, str):
        value = id_text(value)
    if isinstance(value, str) and value.strip().casefold() in _NO_VALUE:
        return ""
    return value


def _texts(value: Any) -> Any:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError("is not a list of texts")
    return value


def _any_text(value: Any) -> str:
    value = id_text(value)
    if isinstance(value, str | float) and not isinstance(value, bool) and value == value:
        return str(value)
    return ""


def listed(value: Any) -> Any:
    """[] for none."""
    if value in (None, ""):
        return []
    return value


def one_of(*words: str) -> AfterValidator:
    """What makes a text one of these words, in whatever case the file writes it."""

    def check(text: str) -> str:
        word = text.strip().casefold()
        if word not in words:
            raise ValueError(f"is not one of {', '.join(filter(None, words))}")
        return word

    return AfterValidator(check)


def joined_parts(content: Any) -> Any:
    """The text of a message whose content is a list of parts, as chats have it; else `content`.

    Raises ValueError for a part that is no text.
    """
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        text = part
        if isinstance(part, dict):
            text = part.get("text")
        if not isinstance(text, str):
            raise ValueError("has a part that is not a text, such as an image")
        texts.append(text)
    return "\n".join(texts)


_OPTION_NAMES = (("key", "label", "letter", "id", "idx", "name"), ("value", "text", "content", "option", "answer"))


def _named_options(value: Any) -> Any:
    """{letter: text} of a list of keys and values, or of lists of both; else `value`."""
    if isinstance(value, list) and value and all(isinstance(option, dict) for option in value):
        keys, texts = [], []
        for option in value:
            if len(option) == 1:  # {"A": "Aspirin"}
                [(key, text)] = option.items()
            else:
                key, text = [first_of(option, names) for names in _OPTION_NAMES]
            keys.append(key)
            texts.append(text)
    elif isinstance(value, dict) and value and all(isinstance(part, list) for part in value.values()):
        keys, texts = [first_of(value, names) or [] for names in _OPTION_NAMES]
    else:
        return value
    names = [str(key).strip().upper() for key in keys]
    if len(names) != len(texts) or len(set(names)) < len(names):
        raise ValueError("does not have one text for each letter")
    return dict(zip(names, texts, strict=True))


def first_of(value: Mapping[str, Any], names: Collection[str]) -> Any:
    """The value under the first of these names that is there; None if none is."""
    for name in names:
        if name in value:
            return value[name]
    return None


def options_of(value: Any) -> dict[str, str]:
    """The options of a question by their letters, sorted.

    Of a list of texts, an object, or a list of keys and values. Raises ValueError, Malformed.
    """
    value = _named_options(value)
    if isinstance(value, dict):
        options = {str(letter).strip().upper(): text for letter, text in value.items()}
    elif isinstance(value, list):
        options = {chr(ord("A") + place): text for place, text in enumerate(value[: MAX_OPTIONS + 1])}
    else:
        raise ValueError("is neither a list nor an object")
    if not 2 <= len(options) <= MAX_OPTIONS:
        raise Malformed(f"It does not have 2 to {MAX_OPTIONS} options.")
    if not all(re.fullmatch("[A-Z]", letter) for letter in options):
        raise Malformed("The name of an option is not a letter.")
    if not all(isinstance(text, str) for text in options.values()):
        raise Malformed("An option has no text.")
    # Letters in the texts count if they are those of the options, of a list in whatever order.
    # 'E. coli' is an option, too.
    bare = {}
    for letter, text in options.items():
        mark = LETTERED.match(text)
        if mark and (mark[1].upper() == letter or isinstance(value, list)):
            bare[mark[1].upper()] = text[mark.end() :]
    if bare.keys() == options.keys():
        options = bare
    options = {letter: text.strip() for letter, text in options.items()}
    if not all(options.values()):
        raise Malformed("An option has no text.")
    return dict(sorted(options.items()))


Verbatim = Annotated[str, StringConstraints(pattern=r"\S")]  # not blank, with the white space around it
Stripped = Annotated[str, StringConstraints(strip_whitespace=True)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
# '' for none ('None' and 'nan' in a table); a number is a text.
OptionalText = Annotated[str, BeforeValidator(told), StringConstraints(strip_whitespace=True)]
Texts = Annotated[list[str], BeforeValidator(_texts)]
YesOrNo = Annotated[bool, BeforeValidator(yes_or_no)]
# letter -> text, of a list of texts, with or without 'A. ' in front, or an object.
Options = Annotated[dict[str, str], BeforeValidator(options_of)]
# '' for what is neither a text nor a number.
AnyText = Annotated[str, BeforeValidator(_any_text), StringConstraints(strip_whitespace=True)]
Id = Annotated[Verbatim, BeforeValidator(id_text), AfterValidator(checked_id)]


def column(*names: str, **about: Any) -> Any:
    """A field that any of these columns gives; the first of them is how messages name it."""
    return Field(validation_alias=AliasChoices(*names), **about)


# --------------------------------------------------------------------------------------- the record


@lru_cache(1000)
def letters(column: str) -> str:
    """The name of a column without case, spaces and signs."""
    return "".join(character for character in column.casefold() if character.isalnum())


class FileRecord(BaseModel):
    """A record: each field is a column under its name or alias. Other columns are not read.

    A field may have several names (`AliasChoices`); the first that has a value is read.

    folded: makes the names of columns comparable.
    """

    # Else thousands of short texts stay in memory.
    model_config = ConfigDict(cache_strings="none")

    folded: ClassVar[Callable[[str], str]] = staticmethod(str)

    @classmethod
    @cache
    def names(cls) -> Mapping[str, tuple[str, ...]]:
        """field -> the names of its column in files, the first of them as messages say it."""
        found: dict[str, tuple[str, ...]] = {}
        for name, field in cls.model_fields.items():
            alias = field.validation_alias
            if isinstance(alias, AliasChoices):
                choices = alias.choices
            else:
                choices = [alias or name]
            found[name] = tuple(str(choice) for choice in choices)
        return found

    @classmethod
    @cache
    def _columns(cls) -> Mapping[str, list[tuple[str, int]]]:
        """Folded name of a column -> the fields that it may give, and how preferred it is."""
        columns: dict[str, list[tuple[str, int]]] = {}
        for names in cls.names().values():
            for preference, name in enumerate(names):
                columns.setdefault(cls.folded(name), []).append((names[0], preference))
        return columns

    @classmethod
    def has(cls, field: str, present: Collection[str]) -> bool:
        """Whether one of the present columns may give a field."""
        return not {*map(cls.folded, present)}.isdisjoint(map(cls.folded, cls.names()[field]))

    @classmethod
    def wants(cls, column: str) -> bool:
        """Whether a column is read."""
        return cls.folded(column) in cls._columns()

    @classmethod
    def missing(cls, present: Collection[str]) -> str:
        """The required columns that are not among the given ones, in words; '' for none."""
        lacking = []
        for field, about in cls.model_fields.items():
            if about.is_required() and not cls.has(field, present):
                first, *others = map(repr, cls.names()[field])
                if others:
                    first += f" (or {' or '.join(others)})"
                lacking.append(first)
        return ", ".join(lacking)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """The record in a file's record. Raises Malformed."""
        try:
            return cls.model_validate(record)
        except ValidationError as error:
            raise Malformed(_reason(error, cls)) from None


class ChoosingRecord(FileRecord):
    """A record in which a field may have several columns; null is as if there were none."""

    @model_validator(mode="before")
    @classmethod
    def _pick(cls, record: Any) -> Any:
        if not isinstance(record, Mapping):
            return record
        columns = cls._columns()
        picked: dict[str, tuple[tuple[bool, int], Any]] = {}
        for column, value in record.items():
            if value is None:
                continue
            for name, preference in columns.get(cls.folded(column), ()):
                rank = (isinstance(value, str) and not value.strip(), preference)
                if name not in picked or rank < picked[name][0]:
                    picked[name] = rank, value
        return {name: value for name, (_rank, value) in picked.items()}


class FoldedRecord(ChoosingRecord):
    """A record whose columns may be in any case, with spaces or underscores."""

    folded = staticmethod(letters)


# ------------------------------------------------------------------------------------- the refusal

# What is wrong with a value, by pydantic's name of the error. Its own messages may quote the value.
_WORDS = {
    "missing": "is missing",
    "string_type": "is not a text",
    "string_too_short": "is blank",
    "string_pattern_mismatch": "is blank",
    "bool_type": "is neither true nor false",
    "literal_error": "is not one of {expected}",
    "list_type": "is not a list",
    "too_short": "is empty",
    "too_long": "has more than {max_length} entries",
    "model_type": "is not an object",
    "model_attributes_type": "is not an object",
    "dict_type": "is not an object",
}


def _reason(error: ValidationError, model: type[FileRecord]) -> str:
    """What is wrong with a record, in a sentence which quotes nothing of it.

    'Turn 2: 'content' is blank.' is of an entry of a list, which the title of its field names.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "string_unicode":
        return NOT_UTF_8
    context = first.get("ctx", {})
    if "error" in context:
        words = str(context["error"])
    else:
        words = _WORDS.get(first["type"], "cannot be read").format(**context)
    path, entry = "", ""
    for part in first["loc"]:
        if isinstance(part, str):
            path = f"{path}.{part}".removeprefix(".")
        else:
            title = path
            for field, names in model.names().items():
                if names[0] == path:
                    title = model.model_fields[field].title or path
            entry, path = f"{title} {part + 1}".capitalize(), ""
    if entry and path:
        return f"{entry}: '{path}' {words}."
    return f"{entry or (path and repr(path)) or 'It'} {words}."
