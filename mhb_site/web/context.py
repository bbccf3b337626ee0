"""The context processor of the frame of every page."""

from typing import Any

from django.http import HttpRequest

from review.rules.permissions import Can, allowed


def frame(request: HttpRequest) -> dict[str, Any]:
    """`can`: the reader's rights by their names in `Can` (``can.review``, ``can.read_results``)."""
    user = getattr(request, "user", None)
    return {"can": {can.value.replace("-", "_"): allowed(user, can) for can in Can}}
