"""A message is shown once, on the site that wrote it."""

import pytest
from django.conf import settings
from django.contrib import messages
from django.contrib.messages.storage.base import BaseStorage
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils.module_loading import import_string

pytestmark = pytest.mark.plain


def storage(request: HttpRequest) -> BaseStorage:
    made: BaseStorage = import_string(settings.MESSAGE_STORAGE)(request)
    return made


def test_the_cookie_of_messages_has_the_site_s_own_name() -> None:
    request, response = RequestFactory().get("/"), HttpResponse()
    request.session = SessionBase()
    written = storage(request)
    written.add(messages.INFO, "Saved.")
    written.update(response)
    [name] = response.cookies
    assert name == settings.ENV.cookie("messages")
    request.COOKIES[name] = response.cookies[name].value
    assert [message.message for message in storage(request)] == ["Saved."]
