"""Comparison of model names across providers and dated versions."""

import re

# Endings of a model's name that do not make it another model: a date (2025-08-07, 20250807,
# 08-2024, 08-07; also 0613 for a day and 2411 for a month); a revision (001); 'latest' or 'free';
# and, before or after a date, 'preview' or 'exp'.
_MONTH, _DAY, _YEAR = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])", r"20[2-4]\d"
_DATE = rf"{_YEAR}-?{_MONTH}-?{_DAY}|{_MONTH}-{_YEAR}|{_YEAR}-{_MONTH}|{_MONTH}-?{_DAY}|2\d{_MONTH}"
_EARLY = r"preview|exp|experimental"
_VERSION = re.compile(rf"-(?:(?:(?:{_EARLY})-)?(?:{_DATE})(?:-(?:{_EARLY}))?|latest|free|00\d)$")


def canonical_model_name(name: str) -> str:
    """Return a canonical name, equal for 'openai/GPT-5', 'gpt-5' and 'gpt-5-2025-08-07'.

    It drops the provider before the last '/', case, punctuation, and versions at the end (see
    `_VERSION`). Sizes and variants remain: 'gpt-5-mini' is another model. A name that consists only
    of a version is left as it is.
    """
    plain = re.sub(r"[\W_]+", "-", name.strip().rpartition("/")[2].casefold()).strip("-")
    while (shorter := _VERSION.sub("", plain)) != plain:
        plain = shorter
    return plain
