"""Texts and times as their readers read them: direction of a script, whole doses, time zones.

Available in every template without `load`.
"""

import re
from datetime import datetime
from functools import lru_cache

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]")
# A number with its sign, further numbers or unit ("5-10 mg", "<2.5 µg/kg"), whose parts would
# change places among words that are read from right to left.
_DOSE = re.compile(
    r"((?:(?<!\S)[<>≤≥±~+-])?[0-9]+(?:[.,/:×x–-][0-9]+)*(?:[ \u00a0\u202f]?(?:%|[A-Za-zµμ°]+(?:/[A-Za-z0-9²]+)*))?)"
)
_RTL_LANGUAGES = {"ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ku-arab", "ps", "sd", "syr", "ug", "ur", "yi"}


@register.simple_tag
def written_in(language: str, text: object = None) -> SafeString:
    """`<p{% written_in case.language text %}>`: the attributes of an element with a text.

    In a language from right to left, texts without any such letter have their own direction.
    """
    from_right = language in _RTL_LANGUAGES or language.split("-")[0] in _RTL_LANGUAGES
    return _attributes(language, rtl=from_right and (text is None or is_right_to_left(str(text))))


@lru_cache
def _attributes(language: str, *, rtl: bool) -> SafeString:
    # A browser's translation would change words that are judged, quoted and highlighted.
    of_language = ""
    if language:
        of_language = format_html(' lang="{}"', language)
    direction = "auto"
    if rtl:
        direction = "rtl"
    return format_html('{} dir="{}" translate="no"', of_language, direction)


def is_right_to_left(text: str) -> bool:
    """Whether a text has letters that are read from right to left."""
    return _RIGHT_TO_LEFT.search(text) is not None


@register.filter
def doses(text: object) -> SafeString:
    """`{{ text|doses }}`: a text of a case, in which every dose reads in its own direction."""
    plain = str(text)
    if is_right_to_left(plain):
        return isolated_doses(plain)
    return conditional_escape(plain)


@register.filter
def finds(text: object, searched: str) -> SafeString:
    """`{{ answer|finds:words }}`: like `doses`, with the words of a search marked."""
    words = sorted(map(re.escape, searched.split()), key=len, reverse=True)
    if not words:
        return doses(text)
    pieces = []
    for n, part in enumerate(re.split(f"({'|'.join(words)})", str(text), flags=re.IGNORECASE)):
        if n % 2:
            pieces.append((format_html("<mark>{}</mark>", part),))
        else:
            pieces.append((doses(part),))
    return format_html_join("", "{}", pieces)


@register.filter
def isolated(text: object) -> SafeString:
    """`{{ case.title|isolated }}`: a text of a case among words of the page."""
    if is_right_to_left(str(text)):
        return format_html("<bdi>{}</bdi>", doses(text))
    return conditional_escape(str(text))


def isolated_doses(text: str) -> SafeString:
    """A text among words from right to left, as HTML, with its doses in `<bdi>`."""
    pieces: list[tuple[str]] = []
    for n, part in enumerate(_DOSE.split(text)):
        if n % 2 and not part.isdigit():
            part = format_html('<bdi dir="ltr">{}</bdi>', part)
        pieces.append((part,))
    return format_html_join("", "{}", pieces)


@register.filter
def moment(at: datetime | None) -> str:
    """`{{ case.due_at|moment }}`: a date and time where the reader is, with the time zone."""
    if at is None:
        return ""
    here = timezone.localtime(at)
    return f"{date_format(here, 'DATETIME_FORMAT')} {here:%Z}"
