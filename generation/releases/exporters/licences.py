"""Licences of sources by their identifiers: of SPDX, and in lower case of the Hugging Face hub."""

import re
from collections.abc import Iterable

_IDENTIFIERS = (
    *("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ODC-By-1.0", "ODbL-1.0"),
    *("CC-BY-3.0", "CC-BY-4.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC-BY-NC-3.0", "CC-BY-NC-4.0"),
    *("CC-BY-ND-3.0", "CC-BY-ND-4.0", "CC-BY-NC-SA-3.0", "CC-BY-NC-SA-4.0", "CC-BY-NC-ND-3.0", "CC-BY-NC-ND-4.0"),
)
_KNOWN = {identifier.casefold(): identifier for identifier in _IDENTIFIERS}


def spdx(licence: str) -> str:
    """The SPDX identifier of a licence as sources name it; '' if it has none that we know."""
    words = re.sub(r"[\s_-]+", "-", re.sub(r"(?i)\blicen[cs]e\b", " ", licence).strip(" ,-"))
    return _KNOWN.get(words.casefold(), "")


def spdx_address(licence: str) -> str:
    """The address of a licence's text at SPDX; its name if it is not there."""
    identifier = spdx(licence)
    if identifier:
        return f"https://spdx.org/licenses/{identifier}.html"
    return licence


def identifiers(licences: Iterable[str]) -> list[str]:
    """The SPDX identifiers of all these licences; empty if one of them has none."""
    found = [spdx(part) for part in ",".join(licences).split(",")]
    if all(found):
        return sorted(set(found))
    return []
