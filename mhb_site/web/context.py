"""What the frame of every page needs."""

from typing import Any

from django.http import HttpRequest

from review.rules.permissions import Can, allowed


def frame(request: HttpRequest) -> dict[str, Any]:
    """`can`: what the reader may do, by the names of `review.rules.permissions.Can` (``can.review``, ``can.read_results``)."""
    user = getattr(request, "user", None)
    return {"can": {can.value.replace("-", "_"): allowed(user, can) for can in Can}}
