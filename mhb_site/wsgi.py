"""WSGI entry point."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
application = get_wsgi_application()
# After the apps are loaded.
application.request_class = import_string("mhb_site.web.requests.Utf8WSGIRequest")
# Otherwise the first request of each worker would wait a second until all views are imported.
get_resolver().url_patterns  # noqa: B018
