"""Codes of languages, however people write them: 'en', 'English', 'en-US', '英语'."""

import re
from functools import cache

from django.conf.locale import LANG_INFO

# What Django's list lacks: ISO 639-2 codes, and names in other languages than their own.
_MORE = {
    "en": "eng englisch anglais inglés 英文 الإنجليزية إنجليزي",
    "de": "deu ger allemand alemán 德文 الألمانية",
    "zh": "zho chi chinese chinesisch chinois mandarin cantonese 中文 汉语 普通话 الصينية",
    "ar": "ara arabisch arabe العربية عربي",
    "fr": "fra fre französisch francés",
    "es": "spa spanisch espagnol castellano",
    "pt": "por portugiesisch portugais",
    "tr": "tur türkisch turc",
    "ru": "rus russisch russe",
}
_CHINESE = {"en": "英语", "de": "德语", "ar": "阿拉伯语", "fr": "法语", "es": "西班牙语", "ru": "俄语", "ja": "日语"}


@cache
def _codes() -> dict[str, str]:
    """Name of a language in lower case -> its code."""
    codes: dict[str, str] = {}
    for code, about in LANG_INFO.items():
        for name in (about.get("name"), about.get("name_local")):
            if name:
                codes.setdefault(name.casefold(), code.partition("-")[0])
    for code, names in _MORE.items():
        codes |= dict.fromkeys(names.split(), code)
    for code, name in _CHINESE.items():
        codes[name] = code
    return codes


def language_code(text: str) -> str:
    """The code of a language by its name, code or tag; other text in lower case, as it is."""
    folded = " ".join(text.split()).casefold()
    if code := _codes().get(folded):
        return code
    tag = re.fullmatch(r"([a-z]{2,3})[-_][a-z0-9]{1,8}(?:[-_][a-z0-9]{1,8})?", folded)
    if tag is None:
        return folded
    return _codes().get(tag[1], tag[1])
