"""The language of an account: kept when it is chosen, and followed at every sign-in."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language
from django.views import i18n

from review.models import User

CHOSEN = "chosen_language"  # in the session of somebody who has not signed in yet


def set_language(request: HttpRequest) -> HttpResponse:
    """Switch the language of the pages; the account keeps it, now or at the next sign-in."""
    chosen = request.POST.get(i18n.LANGUAGE_QUERY_PARAMETER, "")  # a GET, which has none, changes nothing
    if chosen in dict(settings.LANGUAGES):
        if request.user.is_authenticated:
            User.objects.filter(pk=request.user.pk).update(site_language=chosen)
        else:
            request.session[CHOSEN] = chosen
    response: HttpResponse = i18n.set_language(request)
    return response


def keep_at_sign_in(request: HttpRequest, user: User) -> str:
    """The language of an account that signs in, which it keeps.

    The one chosen on the pages before, else its own, else that of the page.
    """
    chosen = request.session.pop(CHOSEN, "")
    language: str = chosen or user.site_language or get_language() or settings.LANGUAGE_CODE
    User.objects.filter(pk=user.pk).exclude(site_language=language).update(site_language=language)
    return language


def follow(request: HttpRequest, response: HttpResponse, language: str) -> HttpResponse:
    """The response, after which this browser's pages are in the language."""
    if language != get_language():
        response.set_cookie(
            settings.LANGUAGE_COOKIE_NAME,
            language,
            path=settings.LANGUAGE_COOKIE_PATH,
            secure=request.is_secure(),
            samesite="Lax",
        )
    return response
