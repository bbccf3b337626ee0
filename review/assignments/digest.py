"""The daily digest: what waits for a physician."""

from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from review.access import visibility
from review.assignments import case_queue
from review.common import notifications
from review.common.site_pause import paused_since
from review.discussion.notices import notices_for
from review.models import Delivery, Occasion, User
from review.rules.permissions import UserRole

HOUR = 6  # of the site's time zone
_done = ""  # the last day of which this process has written all digests


def write_due() -> None:
    """Once a day, write an e-mail to each physician for whom something waits."""
    global _done
    now = timezone.localtime(timezone=ZoneInfo(settings.MHB_TIME_ZONE))
    day = f"digest {now.date()}"
    if now.hour < HOUR or _done == day or paused_since():
        return
    for physician in User.objects.filter(role=UserRole.PHYSICIAN, is_active=True).exclude(email=""):
        if (
            not notifications.wants(physician, Occasion.DIGEST)
            or Delivery.objects.filter(person=physician, once=day).exists()
        ):
            continue
        facts = {
            "held": visibility.assignments_held_by(physician).count(),
            "open": sum(each.cases for each in case_queue.available_work(physician)),
            "unread": len(notices_for(physician)),
        }
        if any(facts.values()):
            notifications.tell(Occasion.DIGEST, [physician], once=day, path=reverse("review:workbench"), **facts)
    _done = day
