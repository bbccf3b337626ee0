"""What only the makers of a release can say on its data card: motivation, funding, ethics, pay.

After the questions of *Datasheets for Datasets* (Gebru et al., 2021). The admin who freezes a
release answers them; the next version keeps the answers that are not given anew.
"""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from generation import errors

CARD_FIELDS: dict[str, tuple[Any, Any]] = {  # name -> label, what to say
    "motivation": (_("Motivation"), _("For what purpose was this data set made, and by whom?")),
    "funding": (_("Funding"), _("Who paid for it? Name grants and competing interests.")),
    "ethics": (_("Ethics"), _("Which board approved or waived the study, and under which number?")),
    "pay": (_("Raters' pay"), _("Were the physicians paid, how much, and by whom?")),
    "maintenance": (_("Maintenance"), _("Who maintains it, until when, and how are errors reported?")),
    "citation": (_("Citation"), _("How should others cite this release?")),
    "biases": (
        _("Known biases"),
        _("Which patients, languages, specialties or models are over- or under-represented?"),
    ),
}
MOST = 4000  # characters of one answer
REMOVED = "-"  # takes an answer of the previous version off the card


def merge_card(previous: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The answers of the previous version, with those that are `given`.

    Raises WrongCard: a name that is no field, or a text that is too long.
    """
    for name, text in given.items():
        if name not in CARD_FIELDS:
            raise errors.WrongCard(f"{name!r}; known: {', '.join(CARD_FIELDS)}")
        if not isinstance(text, str):
            raise errors.WrongCard(f"{name}: it must be a text")
        if len(text) > MOST:
            raise errors.WrongCard(f"{name}: {len(text)} characters, at most {MOST}")
    merged = {}
    for name in CARD_FIELDS:
        text = given.get(name, "").replace("\0", "").strip() or previous.get(name, "")
        if text and text != REMOVED:
            merged[name] = text
    return merged
