"""WSGI entry point."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
application = get_wsgi_application()
# What is loaded by now stays for good: a full collection in the middle of a request would look through all of it, for 90 ms.
gc.collect()
gc.freeze()
