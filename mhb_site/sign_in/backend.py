"""Loads the account of each request."""

from django.contrib.auth.backends import ModelBackend
from django.db.models import Exists, OuterRef

from mhb_site.sign_in import sessions
from review.models import Notice, User


class AccountBackend(ModelBackend):
    """Django's, which also loads whether the account has unread notices, as every page shows it."""

    def get_user(self, user_id: int) -> User | None:
        account = sessions.account_from_session(user_id) or self._load(user_id)
        return account if account is not None and self.user_can_authenticate(account) else None

    def _load(self, user_id: int) -> User | None:
        unread = Notice.objects.filter(user=OuterRef("pk"), read_at__isnull=True)
        return User.objects.annotate(has_notices=Exists(unread)).filter(pk=user_id).first()
