"""The pause in which a restored site begins: it makes no call and sends no message by itself.

The site whose backup it was may still be running: the copy would pay for the same calls again, and
send the same messages.
"""

from datetime import datetime

from django.db.models import Exists, Q

from review.models import SitePause


def not_paused() -> Q:
    """A filter for rows of work that are taken only while the site is not paused."""
    return Q(~Exists(SitePause.objects.all()))


def paused_since() -> datetime | None:
    """Since when the site is paused; None if it is not."""
    return SitePause.objects.values_list("since", flat=True).first()
