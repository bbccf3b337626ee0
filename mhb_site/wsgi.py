"""WSGI entry point."""

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
application = get_wsgi_application()
application.request_class = import_string("mhb_site.web.requests.Utf8WSGIRequest")  # once the apps are there
get_resolver().url_patterns  # noqa: B018 -- else the first request of each worker waits a second for all views to be imported
# What is loaded by now stays for good: a full collection in the middle of a request would look through all of it, for 90 ms.
gc.collect()
gc.freeze()
