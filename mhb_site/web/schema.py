"""Adds to the API's schema: required roles, the authentication, and the problem response."""

from typing import Any

from drf_spectacular.contrib.knox_auth_token import KnoxTokenScheme
from drf_spectacular.openapi import AutoSchema

from review.common.api import required_right
from review.rules.permissions import GRANTS, Can


class BearerScheme(KnoxTokenScheme):  # type: ignore[no-untyped-call]
    """Describes our tokens; drf-spectacular registers it by its definition."""

    target_class = "review.common.api.BearerTokenAuthentication"
    name = "token"


class Schema(AutoSchema):
    """The schema of one view: its docstring and the roles allowed."""

    def get_description(self) -> str:  # type: ignore[override]
        description: str = super().get_description()
        can = required_right(self.view, self.method)
        if can is None:
            return description
        reads = self.method == "GET" and can is not Can.REVIEW
        roles = []
        for role, grants in GRANTS.items():
            if can in grants or (reads and Can.AUDIT in grants):
                roles.append(role.value)
        return f"{description}\n\nFor: {' or '.join(roles)} (`{can}`)."


_TEXT = {"type": "string"}
PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "example": "urn:mhb:lease-lost"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "description": "400: the invalid fields of the request.",
            "items": {
                "type": "object",
                "required": ["field", "code", "detail"],
                "properties": {"field": _TEXT, "code": _TEXT, "detail": _TEXT},
            },
        },
        "problems": {
            "type": "array",
            "description": "422: what is missing or contradictory in a review.",
            "items": {
                "type": "object",
                "required": ["field", "code"],
                "properties": {"field": _TEXT, "code": _TEXT},
            },
        },
    },
}


def add_problem_responses(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Schema hook: every operation may answer with problem+json."""
    result["components"].setdefault("schemas", {})["Problem"] = PROBLEM
    response = {
        "description": "The request was refused or failed.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for methods in result["paths"].values():
        for operation in methods.values():
            operation["responses"]["default"] = response
    return result
