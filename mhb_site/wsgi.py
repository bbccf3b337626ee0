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
# After the apps are loaded.
application.request_class = import_string("mhb_site.web.requests.Utf8WSGIRequest")
# Otherwise the first request of each worker would wait a second until all views are imported.
get_resolver().url_patterns  # noqa: B018
# Django keeps the language and the URLs of a request in asgiref's storage, which takes a
# microsecond for each of the five hundred lookups of a page. No event loop runs here, so plain
# thread-locals are enough.
for module, name in ((trans_real, "_active"), (base, "_prefixes"), (base, "_urlconfs")):
    setattr(module, name, threading.local())
# Preload what the first page with a case needs in each language: URLs, the guideline's parser,
# templates.
for code, _name in settings.LANGUAGES:
    with override(code):
        base.reverse("review:workbench")
import_module("markdown_it")
for folder in ("assignments", "answers", "blocks", "cases", "discussion"):
    for file in (settings.BASE_DIR / "templates" / "review" / folder).glob("*.html"):
        get_template(f"review/{folder}/{file.name}")
get_template("base.html")
# Everything loaded so far stays for good: without this, a full collection during a request would
# scan all of it, for 90 ms.
gc.collect()
gc.freeze()
# Requests leave few reference cycles behind. The default thresholds would collect once or twice
# during each page.
gc.set_threshold(5_000, 20, 200)
