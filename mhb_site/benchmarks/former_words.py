"""Words of earlier forms and pages, which cases that were frozen before are still shown with.

A case keeps its words in English and is translated when it is shown.
"""

from django.utils.translation import gettext_noop as _

FORMER_WORDS = (
    _("1, obvious"),
    _("All steps, for context"),
    _("The model's whole trace, for context"),
    _(
        "Text, numbers, images or recordings are combined incorrectly, or something is relied on that was never provided."
    ),
)
