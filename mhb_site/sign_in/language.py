"""The language of an account: kept when it is chosen, and followed at every sign-in."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language
from django.views import i18n

from review.models import User


def set_language(request: HttpRequest) -> HttpResponse:
    """Switch the language of the pages; the account of a signed-in reader keeps it."""
    chosen = request.POST.get(i18n.LANGUAGE_QUERY_PARAMETER, "")  # a GET, which has none, changes nothing
    if request.user.is_authenticated and chosen in dict(settings.LANGUAGES):
        User.objects.filter(pk=request.user.pk).update(site_language=chosen)
    response: HttpResponse = i18n.set_language(request)
    return response


def follow(request: HttpRequest, user: User, response: Any) -> Any:
    """The response to a sign-in, with the language of the account; a new one keeps this page's."""
    if not user.site_language:
        User.objects.filter(pk=user.pk).update(site_language=get_language() or settings.LANGUAGE_CODE)
    else:
        response.set_cookie(
            settings.LANGUAGE_COOKIE_NAME,
            user.site_language,
            path=settings.LANGUAGE_COOKIE_PATH,
            secure=request.is_secure(),
            samesite="Lax",
        )
    return response
