"""WSGI entry point."""

import gc
import os
import threading
from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.template.loader import get_template
from django.urls import base, get_resolver
from django.utils.module_loading import import_string
from django.utils.translation import override, trans_real

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
application = get_wsgi_application()
application.request_class = import_string("mhb_site.web.requests.Utf8WSGIRequest")  # once the apps are there
get_resolver().url_patterns  # noqa: B018 -- else the first request of each worker waits a second for all views to be imported
# The language and the addresses of a request are its thread's here, where no event loop runs. A page looks them up five hundred
# times, and in the storage that asyncio wants each time takes a microsecond.
for module, name in ((trans_real, "_active"), (base, "_prefixes"), (base, "_urlconfs")):
    setattr(module, name, threading.local())
# Nor should the first page with a case, in each language, wait for its addresses, its guideline and its templates.
for code, _name in settings.LANGUAGES:
    with override(code):
        base.reverse("review:workbench")
import_module("markdown_it")
for folder in ("assignments", "answers", "blocks", "cases", "discussion"):
    for file in (settings.BASE_DIR / "templates" / "review" / folder).glob("*.html"):
        get_template(f"review/{folder}/{file.name}")
get_template("base.html")
# What is loaded by now stays for good: a full collection in the middle of a request would look through all of it, for 90 ms.
gc.collect()
gc.freeze()
# What a request leaves behind in circles is little: not once or twice during each page.
gc.set_threshold(5_000, 20, 200)
