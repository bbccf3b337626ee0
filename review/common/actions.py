"""Methods of API views that say what they take and what they answer."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from review.common.api import validated_body, validated_query
from review.common.serializers import serializer_of

Shape = Any  # a class: a serializer, or an answer (`review.rules.answers`)
Method = Callable[..., Any]
Decorator = Callable[[Method], Any]  # of a method, which DRF gives further attributes
Body = dict[str, Any]


def answers(
    shape: Shape | None = None,
    *,
    body: type[Serializer[Any]] | None = None,
    query: type[Serializer[Any]] | None = None,
    many: bool = False,
    status: int = 200,
    **schema: Any,
) -> Decorator:
    """Document a method of an API view, check what it is sent, and show what it returns.

    After the request, the method takes the checked values of `body` or `query`. It returns what
    `shape` shows; without a shape, the answer is 204. `schema`: further options of `extend_schema`.
    """
    responses: Any = {204: None}
    if shape:
        if not issubclass(shape, Serializer):
            shape = serializer_of(shape)
        if many:
            responses = {status: shape(many=True)}
        else:
            responses = {status: shape}
    if query:
        schema = {"parameters": [query], **schema}
    documented = extend_schema(request=body, responses=responses, **schema)

    def decorate(method: Method) -> Any:
        @wraps(method)
        def answer(view: object, request: Request, *args: Any, **kwargs: Any) -> Response:
            checked = []
            if body:
                checked = [validated_body(body, request)]
            elif query:
                checked = [validated_query(query, request)]
            result = method(view, request, *checked, *args, **kwargs)
            if shape:
                return Response(shape(result, many=many).data, status)
            return Response(status=204)

        return documented(answer)

    return decorate


def acts(
    shape: Shape | None = None, body: type[Serializer[Any]] | None = None, *, status: int = 200, **options: Any
) -> Decorator:
    """Make a method of a view set a POST action on one row. `options`: of DRF's `action`."""
    made = action(detail=True, methods=["post"], **options)
    return lambda method: answers(shape, body=body, status=status)(made(method))
