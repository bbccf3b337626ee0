"""Methods of API views that say what they take and what they answer."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from review.common.api import paginated_response, validated_body, validated_query
from review.common.serializers import Fields, serializer_of

Taken = type[Serializer[Any]] | Fields
Shape = Any  # fields by name, or a class: a serializer, or an answer (`review.rules.shown_fields`)
Method = Callable[..., Any]
Decorator = Callable[[Method], Any]  # of a method, which DRF gives further attributes
Body = dict[str, Any]


def answers(
    shape: Shape | None = None,
    *,
    body: Taken | None = None,
    query: Taken | None = None,
    many: bool = False,
    paged: bool = False,
    status: int = 200,
    **schema: Any,
) -> Decorator:
    """Document a method of an API view, check what it is sent, and show what it returns.

    After the request, the method takes the checked values of `body` or `query`, which are fields by
    name, or a serializer. It returns what `shape` shows; without a shape, the answer is 204.
    `many`: it returns a list. `paged`: it returns a query set, of which a page is shown. A response
    is sent as it is. `schema`: further options of `extend_schema`.
    """

    def decorate(method: Method) -> Any:
        shown = _serializer(method, shape)
        taken = _serializer(method, body or query)
        responses: Any = {204: None}
        if shown:
            responses = {status: shown}
            if many or paged:
                responses = {status: shown(many=True)}
        options = {"responses": responses, **schema}
        if query:
            options["parameters"] = [taken, *schema.get("parameters", [])]

        @wraps(method)
        def answer(view: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
            checked = []
            if body and taken:
                checked = [validated_body(taken, request)]
            elif taken:
                checked = [validated_query(taken, request)]
            result = method(view, request, *checked, *args, **kwargs)
            if isinstance(result, HttpResponseBase):
                return result
            if paged:
                return paginated_response(view, result, shown)
            if shown:
                return Response(shown(result, many=many, context={"request": request}).data, status)
            return Response(status=204)

        request_body = None
        if body:
            request_body = taken
        return extend_schema(request=request_body, **options)(answer)

    return decorate


def _serializer(method: Method, shape: Shape | None) -> type[Serializer[Any]] | None:
    """The serializer of a shape. That of fields is named by the method, in the schema."""
    if isinstance(shape, Mapping):
        view, name = method.__qualname__.rsplit(".", 2)[-2:]
        words = name.title().replace("_", "")
        return type(f"{view.removesuffix('ViewSet')}{words}Serializer", (Serializer,), dict(shape))
    if shape and not issubclass(shape, Serializer):
        return serializer_of(shape)
    return shape


def acts(shape: Shape | None = None, body: Taken | None = None, *, status: int = 200, **options: Any) -> Decorator:
    """Make a method of a view set a POST action on one row. `options`: of DRF's `action`."""
    made = action(detail=True, methods=["post"], **options)
    return lambda method: answers(shape, body=body, status=status)(made(method))
