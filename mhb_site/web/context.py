"""The context processor of the frame of every page."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from mhb_site.demo import progress
from mhb_site.web.search import may_search
from review.discussion.notices import notices_for
from review.models import User
from review.rules.permissions import Can, allowed


def frame(request: HttpRequest) -> dict[str, Any]:
    """What every page needs.

    `can`: the reader's rights by their names in `Can` (``can.review``, ``can.read_results``).
    `unread_notices`: the newest, loaded where a page shows them.
    `demo`: how far a demo has loaded. `can_search`: whether the reader has a search.
    """
    user = getattr(request, "user", None)
    rights = {can.value.replace("-", "_"): allowed(user, can) for can in Can}
    unread: Any = []
    if isinstance(user, User):
        unread = SimpleLazyObject(lambda: notices_for(user))
    can_search = may_search(user)
    return {"can": rights, "unread_notices": unread, "demo": progress.read(), "can_search": can_search}
