"""Access control and small helpers for the views of every app."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, Literal, ParamSpec
from urllib.parse import quote

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods

from review.errors import NotAllowed, ShownError
from review.labels import with_label
from review.models import User
from review.rules import limits
from review.rules.permissions import Can, allowed, may_request

_NEVER_SHOWN = re.compile("password|token|key|secret|code|credential|csrf|next", re.IGNORECASE)  # in a field's name
_CODE = re.compile(r"[\w.:-]*", re.ASCII)  # a choice or a number, quickly entered again

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

    allowed_methods: list[str] = list(methods)
    if "GET" in methods:
        allowed_methods.append("HEAD")

    def has_right(request: HttpRequest) -> bool:
        if acting:
            return allowed(request.user, can)
        return may_request(request.user, can, request.method)

    def decorate(view: View[P]) -> View[P]:
        @login_required
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not has_right(request):
                raise NotAllowed
            if back and request.method != "POST":
                return redirect(resolve_url(back, *args, **kwargs))
            return view(request, *args, **kwargs)

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
    headers = {"Content-Disposition": content_disposition_header(as_attachment=True, filename=name) or ""}
    if isinstance(content, str):
        return HttpResponse(content, content_type=content_type, headers=headers)
    return StreamingHttpResponse(_begun(content), content_type=content_type, headers=headers)


def _begun(parts: Iterable[str | bytes]) -> Iterator[str | bytes]:
    """The parts, the first of which is made now: what goes wrong until then is shown as a page."""
    others = iter(parts)
    first = list(islice(others, 1))

    def all_parts() -> Iterator[str | bytes]:
        yield from first
        yield from others

    return all_parts()


def posted_data(request: HttpRequest) -> QueryDict | None:
    """What a form was filled with; None for a page that is only looked at."""
    if request.method == "POST":
        return request.POST
    return None


def refusal_text(form: forms.BaseForm) -> str:
    """All errors of a form in one line, each after the label of its field."""
    sentences = []
    for name, errors in form.errors.items():
        text = " ".join(map(str, errors))
        if name in form.fields:
            text = with_label(form[name].label, text)
        sentences.append(text)
    return " ".join(sentences)


def render_form(request: HttpRequest, template: str, context: Mapping[str, Any], *, refused: object) -> HttpResponse:
    """Render the page of a form; its status is 422 if what was posted is refused."""
    status = 200
    if refused:
        status = 422
    return render(request, template, context, status=status)


def redirect_refused(request: HttpRequest, why: str, to: str, *args: object) -> HttpResponseRedirect:
    """Redirect to the page of a refused form, which says why and loses nothing typed.

    typed.js fills the form again; without scripts, messages show the texts.
    """
    messages.error(request, why)
    for name, value in request.POST.items():
        text = str(value)  # for the types: a posted field has a text
        if not _NEVER_SHOWN.search(name) and not _CODE.fullmatch(text):
            messages.info(request, text[: limits.GUIDELINE], extra_tags="typed")
    return redirect(resolve_url(to, *args))


def redirect_saying(request: HttpRequest, text: str, to: str, *args: object) -> HttpResponseRedirect:
    """Redirect to a page, which then says that something was done."""
    messages.success(request, text)
    return redirect(resolve_url(to, *args))


def show_at(request: HttpRequest, address: str) -> None:
    """Let the browser show this address for the response to a post, which can then be reloaded."""
    request.shown_at = address  # type: ignore[attr-defined]


def redirect_with_receipt(response: HttpResponseRedirect, local_copy: str, anchor: str = "") -> HttpResponseRedirect:
    """Tell the browser in the redirect's fragment that the post has arrived.

    The browser can then delete its own copy of the form, which it stores as `local_copy`: a name of
    ours, so a longer one is left out of the header.
    """
    if local_copy and len(local_copy) <= limits.NAME:
        anchor += f"!{quote(local_copy)}"
    if anchor:
        response["Location"] += f"#{anchor}"
    return response


def posted_token(request: HttpRequest) -> uuid.UUID:
    """The fencing token in a posted form of the workbench; the nil UUID if it is invalid."""
    try:
        return uuid.UUID(request.POST.get("token", ""))
    except ValueError:
        return uuid.UUID(int=0)  # matches no assignment: services treat it like any outdated token
