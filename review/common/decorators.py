"""Who may see a page: signed in, and allowed by `review.rules.permissions`. For the views of every app."""

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import quote

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase

from review.errors import NotAllowed
from review.models import User
from review.rules.permissions import Can, require

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def requires(can: Can) -> Callable[[View[P]], View[P]]:
    """Decorate a view: who is not signed in is sent to sign in, whose role does not allow `can` gets NotAllowed (403)."""

    def decorate(view: View[P]) -> View[P]:
        @login_required
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            require(request.user, can)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def signed_in_account(request: HttpRequest) -> User:
    """The signed-in account of a guarded view."""
    if not isinstance(request.user, User):
        raise NotAllowed
    return request.user


def redirect_with_receipt(answer: HttpResponseRedirect, local: str, anchor: str = "") -> HttpResponseRedirect:
    """The redirect with word to the browser that what was posted has arrived: its own copy, named `local`, can go."""
    if anchor or local:
        answer["Location"] += f"#{anchor}" + (f"!{quote(local)}" if local else "")
    return answer


def posted_token(request: HttpRequest) -> uuid.UUID:
    """The fencing token of a posted form of the workbench."""
    try:
        return uuid.UUID(request.POST.get("token", ""))
    except ValueError:
        return uuid.UUID(int=0)  # fences nothing: the services answer as to any other token that is not the last one
