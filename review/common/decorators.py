"""Access control and small helpers for the views of every app."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Literal, ParamSpec
from urllib.parse import quote

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, resolve_url
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods

from review.errors import NotAllowed, ShownError
from review.models import User
from review.rules import limits
from review.rules.permissions import Can, allowed, may_request

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def requires(
    can: Can, *methods: Literal["GET", "POST"], acting: bool = False, back: str = ""
) -> Callable[[View[P]], View[P]]:
    """Restrict a view to signed-in people whose role has the right `can`; auditors may read it.

    Everybody else is redirected to sign in, or gets NotAllowed (403) if already signed in.

    methods: those of the page (GET with HEAD), by default all; any other is a 405 for everybody.
    acting: the page only serves to act, as there is nothing to read; auditors do not get it.
    back: the page only takes a POST; a GET, as after a new sign-in, leads to this page of the row.
    """

    def decorate(view: View[P]) -> View[P]:
        @login_required
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not (allowed(request.user, can) if acting else may_request(request.user, can, request.method)):
                raise NotAllowed
            if back and request.method != "POST":
                return redirect(resolve_url(back, *args, **kwargs))
            return view(request, *args, **kwargs)

        allowed_methods = [*methods, *(["HEAD"] if "GET" in methods else [])]
        if methods:
            return require_http_methods(allowed_methods)(guarded)
        return guarded

    return decorate


def signed_in_account(request: HttpRequest) -> User:
    """The account that is signed in. Raises NotAllowed if there is none."""
    if not isinstance(request.user, User):
        raise NotAllowed
    return request.user


@contextmanager
def refusals_on(form: forms.Form, kind: type[ShownError], *, but: tuple[type[ShownError], ...] = ()) -> Iterator[None]:
    """Show an error of this kind, but none of `but`, on the form, which keeps what was typed."""
    try:
        yield
    except kind as error:
        if isinstance(error, but):
            raise
        form.add_error(None, str(error))


def download(content: str | Iterable[str] | Iterable[bytes], name: str, content_type: str) -> HttpResponseBase:
    """The response that sends a file of this name: a text, or a stream of its parts."""
    response = HttpResponse if isinstance(content, str) else StreamingHttpResponse
    headers = {"Content-Disposition": content_disposition_header(as_attachment=True, filename=name) or ""}
    return response(content, content_type=content_type, headers=headers)


def redirect_saying(request: HttpRequest, text: str, to: str, *args: object) -> HttpResponseRedirect:
    """Redirect to a page, which then says that something was done."""
    messages.success(request, text)
    return redirect(resolve_url(to, *args))


def redirect_with_receipt(response: HttpResponseRedirect, local_copy: str, anchor: str = "") -> HttpResponseRedirect:
    """Tell the browser in the redirect's fragment that the post has arrived.

    The browser can then delete its own copy of the form, which it stores as `local_copy`: a name of
    ours, so a longer one is left out of the header.
    """
    if len(local_copy) > limits.NAME:
        local_copy = ""
    if anchor or local_copy:
        response["Location"] += f"#{anchor}" + (f"!{quote(local_copy)}" if local_copy else "")
    return response


def posted_token(request: HttpRequest) -> uuid.UUID:
    """The fencing token in a posted form of the workbench; the nil UUID if it is invalid."""
    try:
        return uuid.UUID(request.POST.get("token", ""))
    except ValueError:
        return uuid.UUID(int=0)  # matches no assignment: services treat it like any outdated token
