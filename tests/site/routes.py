"""All addresses of the site outside its API, filled in with the rows of `tests.site.world`."""

import re
from typing import Any

from django.apps import apps
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import get_converters

from review.models import Case
from tests.site.world import World

# Routes of allauth and Django that are regular expressions -> a path that matches.
REGULAR_EXPRESSIONS = {
    r"accounts/^confirm-email/(?P<key>[-:\w]+)/$": "accounts/confirm-email/key/",
    r"accounts/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$": "accounts/password/reset/key/1-key/",
    r"admin/(?P<url>.*)$": "admin/nowhere",
}


def routes(patterns: list[Any] | None = None, prefix: str = "") -> list[str]:
    """Return all routes as written, except those under `api/v1/`, which other tests list."""
    collected: list[str] = []
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver) and entry.namespace != "api":
            collected += routes(entry.url_patterns, route)
        elif isinstance(entry, URLPattern):
            collected.append(route)
    return collected


def is_django_admin(route: str) -> bool:
    return route.startswith("admin/")


def case_of(route: str, world: World) -> Case:
    """Return the case for a route: one that waits for a physician, unless the route needs another.

    A calibration case needs a closed case, a remark needs Ana's, and setting back needs one that
    waits for a confirmation.
    """
    if route.endswith("/set-back/"):
        return world.held["confirmation"].case
    if route.endswith("/calibration/"):
        return world.closed["approved-1"]
    return world.held["primary"].case if route.endswith("/remarks/") else world.waiting


def _figure_name(route: str) -> str:
    return "bars-combined" if "/figures/" in route else ""


def _release_name(route: str) -> str:
    """Return the name of a release; publishing needs one that is not public yet."""
    return "unpublished" if route.endswith("/publish/") else "own"


def address(route: str, world: World) -> str:
    """Fill in a route with the numbers of the world's rows. Assignments are Ana's."""
    values = {
        "assignment_id": world.held["unseen" if route.endswith("/reveal/") else "primary"].pk,
        "benchmark": "mhb",
        "content_type_id": 1,
        "id": world["ana"].pk,
        "object_id": 1,
        "case_id": case_of(route, world).pk,
        "file": "records.json",
        "format_name": "jsonl",
        "item_id": world.calibration_id,
        "judgment_id": world.judgment_id,
        "kind": "record",
        "key": world.released_key,
        "name": "hook"
        if "/webhooks/" in route
        else "model-1"
        if "/endpoints/" in route or "/models/" in route
        else _figure_name(route) or _release_name(route),
        "notice_id": world.notice_id,
        "person_id": world["ines" if "/invitation/" in route else "ana"].pk,
        "pk": world.pk(route),
        "record_id": world.compared_record_id,
        "rest": "key",
        "review_id": world.review_id,
        "sha256": world.image,
        "rewording_id": world.rewording_id,
        "stage": "primary",
        "token": "no-token",
        "trial": "00000000-0000-4000-8000-000000000000",
        "tool": "argilla",
        "version": 1,
    }
    if "<path:object_id>" in route and "content_type" not in route:
        app, model = route.split("/")[1:3]
        model_class = apps.get_model(app, model)
        values["object_id"] = model_class._default_manager.values_list("pk", flat=True).first() or 1
    if route.startswith("admin/^"):
        return "/admin/review/"
    converters = get_converters()
    return "/" + re.sub(
        r"<(?:(\w+):)?(\w+)>",
        lambda part: str(converters[part[1] or "path"].to_url(values[part[2]])),
        REGULAR_EXPRESSIONS.get(route, route),
    )
