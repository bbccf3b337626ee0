"""The context processor of the frame of every page."""

from typing import Any

from django.http import HttpRequest

from mhb_site.demo import progress
from review.rules.permissions import Can, allowed


def frame(request: HttpRequest) -> dict[str, Any]:
    """What every page needs.

    `can`: the reader's rights by their names in `Can` (``can.review``, ``can.read_results``).
    `demo`: how far a demo has loaded.
    """
    user = getattr(request, "user", None)
    rights = {can.value.replace("-", "_"): allowed(user, can) for can in Can}
    return {"can": rights, "demo": progress.read()}
