"""The URLs of the API's viewsets."""

from typing import Any

from rest_framework.routers import DynamicRoute, Route, SimpleRouter


class Router(SimpleRouter):
    """Names URLs: `cases` for a list, `case` for a row, `case-withdraw` for an action.

    The name of a list is the basename with an s, or the viewset's `plural`. A row's URL has its
    number, or the viewset's `row`. `show` is for viewsets without rows.
    """

    routes = [
        Route("{prefix}/", {"get": "list", "post": "create"}, "{basename}s", detail=False, initkwargs={}),
        Route("{prefix}/", {"get": "show"}, "{basename}", detail=False, initkwargs={}),
        DynamicRoute("{prefix}/{url_path}/", "{basename}-{url_name}", detail=False, initkwargs={}),
        Route(
            "{prefix}/{lookup}/",
            {"get": "retrieve", "patch": "partial_update", "delete": "destroy"},
            "{basename}",
            detail=True,
            initkwargs={},
        ),
        DynamicRoute("{prefix}/{lookup}/{url_path}/", "{basename}-{url_name}", detail=True, initkwargs={}),
    ]

    def __init__(self) -> None:
        super().__init__(use_regex_path=False)

    def is_already_registered(self, new_basename: str) -> bool:
        """Features may share a prefix: the API of calibration adds to `cases`."""
        return False

    def get_lookup_regex(self, viewset: Any, lookup_prefix: str = "") -> str:
        return getattr(viewset, "row", "<int:pk>")

    def get_routes(self, viewset: Any) -> list[Route]:
        plural = getattr(viewset, "plural", "{basename}s")
        routes = []
        for route in super().get_routes(viewset):
            if route.name == "{basename}s":
                route = route._replace(name=plural)
            routes.append(route)
        return routes
