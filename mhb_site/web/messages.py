"""Messages shown once, kept in a cookie of this site alone."""

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage


class SiteCookieStorage(CookieStorage):
    """Django's storage in a cookie, under a name that another site on this host does not use."""

    cookie_name = settings.ENV.cookie("messages")


class SiteStorage(FallbackStorage):
    """Django's default storage: the cookie, and the session for what is too long for it."""

    storage_classes = (SiteCookieStorage, SessionStorage)
