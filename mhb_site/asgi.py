"""ASGI entry point."""

import os

from django.core.asgi import get_asgi_application
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
application = get_asgi_application()
application.request_class = import_string("mhb_site.web.requests.Utf8ASGIRequest")  # once the apps are there
