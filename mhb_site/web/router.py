"""The addresses of the API's viewsets."""

from typing import Any

from rest_framework.routers import DynamicRoute, Route, SimpleRouter


class Router(SimpleRouter):
    """Names a list by its basename's plural (`cases`, or the viewset's `plural`), a row by the basename (`case`), and what is
    done with it by both (`case-withdraw`). A row is at its number, or at the viewset's `row`. `show` is of what has no rows."""

    routes = [
        Route("{prefix}/", {"get": "list", "post": "create"}, "{basename}s", detail=False, initkwargs={}),
        Route("{prefix}/", {"get": "show"}, "{basename}", detail=False, initkwargs={}),
        DynamicRoute("{prefix}/{url_path}/", "{basename}-{url_name}", detail=False, initkwargs={}),
        Route(
            "{prefix}/{lookup}/",
            {"get": "retrieve", "patch": "partial_update"},
            "{basename}",
            detail=True,
            initkwargs={},
        ),
        DynamicRoute("{prefix}/{lookup}/{url_path}/", "{basename}-{url_name}", detail=True, initkwargs={}),
    ]

    def __init__(self) -> None:
        super().__init__(use_regex_path=False)

    def is_already_registered(self, new_basename: str) -> bool:
        """Features may share a prefix: calibration cases are made of `cases`, too."""
        return False

    def get_lookup_regex(self, viewset: Any, lookup_prefix: str = "") -> str:
        return getattr(viewset, "row", "<int:pk>")

    def get_routes(self, viewset: Any) -> list[Route]:
        plural = getattr(viewset, "plural", "{basename}s")
        return [
            each._replace(name=plural) if each.name == "{basename}s" else each for each in super().get_routes(viewset)
        ]
