"""The accounts of this site, as each request gets its own."""

from django.contrib.auth.backends import ModelBackend
from django.db.models import Exists, OuterRef

from mhb_site.sign_in import sessions
from review.models import Notice, User


class AccountBackend(ModelBackend):
    """Django's, and with the account in the same statement whether a notification waits: every page shows it."""

    def get_user(self, user_id: int) -> User | None:
        found = sessions.read_along(user_id) or self._asked(user_id)
        return found if found is not None and self.user_can_authenticate(found) else None

    def _asked(self, user_id: int) -> User | None:
        unread = Notice.objects.filter(user=OuterRef("pk"), read_at__isnull=True)
        return User.objects.annotate(has_notices=Exists(unread)).filter(pk=user_id).first()
