"""The language of an account: kept when it is chosen, and followed at every sign-in."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language
from django.views import i18n

from review.models import User

CHOSEN = "chosen_language"  # the cookie of somebody who has not signed in yet


def set_language(request: HttpRequest) -> HttpResponse:
    """Switch the language of the pages; the account keeps it, now or at the next sign-in."""
    response: HttpResponse = i18n.set_language(request)
    chosen = request.POST.get(i18n.LANGUAGE_QUERY_PARAMETER, "")  # a GET, which has none, changes nothing
    if chosen in dict(settings.LANGUAGES):
        if request.user.is_authenticated:
            User.objects.filter(pk=request.user.pk).update(site_language=chosen)
        else:
            _set_cookie(request, response, CHOSEN, chosen)
    return response


def keep_at_sign_in(request: HttpRequest, user: User) -> str:
    """The language of an account that signs in, which it keeps.

    The one chosen on the pages before, else its own, else that of the page.
    """
    language: str = user.site_language or get_language() or settings.LANGUAGE_CODE
    chosen = request.COOKIES.get(CHOSEN, "")
    if chosen in dict(settings.LANGUAGES):
        language = chosen
    User.objects.filter(pk=user.pk).exclude(site_language=language).update(site_language=language)
    return language


def follow(request: HttpRequest, response: HttpResponse, language: str) -> HttpResponse:
    """The response, after which this browser's pages are in the language."""
    if CHOSEN in request.COOKIES:
        response.delete_cookie(CHOSEN, path=settings.LANGUAGE_COOKIE_PATH, samesite="Lax")
    if language != get_language():
        _set_cookie(request, response, settings.LANGUAGE_COOKIE_NAME, language)
    return response


def _set_cookie(request: HttpRequest, response: HttpResponse, name: str, language: str) -> None:
    path = settings.LANGUAGE_COOKIE_PATH
    response.set_cookie(name, language, path=path, secure=request.is_secure(), samesite="Lax")
