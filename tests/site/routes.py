"""Every address of the site outside its API, from the resolver, and what stands in it in the world of `tests.site.world`."""

import re
from typing import Any

from django.apps import apps
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import get_converters

from review.models import Case
from tests.site.world import World

# Routes that are regular expressions: allauth's and Django's.
WRITTEN_OUT = {
    r"accounts/^confirm-email/(?P<key>[-:\w]+)/$": "accounts/confirm-email/key/",
    r"accounts/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$": "accounts/password/reset/key/1-key/",
    r"admin/(?P<url>.*)$": "admin/nowhere",
}


def routes(patterns: list[Any] | None = None, above: str = "") -> list[str]:
    """Every route as it is written, without what is under `api/v1/`, which the API's tests list."""
    found: list[str] = []
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        route = above + str(entry.pattern)
        if isinstance(entry, URLResolver) and entry.namespace != "api":
            found += routes(entry.url_patterns, route)
        elif isinstance(entry, URLPattern):
            found.append(route)
    return found


def django_admin(route: str) -> bool:
    return route.startswith("admin/")


def case_of(route: str, world: World) -> Case:
    """A case that is waiting. For a calibration case one that is closed; for a remark ana's; one in want of a confirmation."""
    if route.endswith("/set-back/"):
        return world.held["confirmation"].case
    if route.endswith("/calibration/"):
        return world.closed["approved-1"]
    return world.held["primary"].case if route.endswith("/remarks/") else world.waiting


def _figure(route: str) -> str:
    return "bars-combined" if "/figures/" in route else ""


def _release(route: str) -> str:
    """The released data: to be published is the version that is not public."""
    return "unpublished" if route.endswith("/publish/") else "own"


def address(route: str, world: World) -> str:
    """The path of a route with the world's numbers in it. Those of an assignment are ana's."""
    values = {
        "assignment_id": world.held["unseen" if route.endswith("/reveal/") else "primary"].pk,
        "benchmark": "mhb",
        "content_type_id": 1,
        "id": world["ana"].pk,
        "object_id": 1,
        "case_id": case_of(route, world).pk,
        "format_name": "jsonl",
        "item_id": world.calibration_id,
        "judgment_id": world.judgment_id,
        "key": world.released_key,
        "name": "model-1" if "/endpoints/" in route else _figure(route) or _release(route),
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
        "version": 1,
    }
    if "<path:object_id>" in route and "content_type" not in route:
        app, model = route.split("/")[1:3]
        kind = apps.get_model(app, model)
        values["object_id"] = kind._default_manager.values_list("pk", flat=True).first() or 1
    if route.startswith("admin/^"):
        return "/admin/review/"
    converters = get_converters()
    return "/" + re.sub(
        r"<(?:(\w+):)?(\w+)>",
        lambda part: str(converters[part[1] or "path"].to_url(values[part[2]])),
        WRITTEN_OUT.get(route, route),
    )
