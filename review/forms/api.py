"""The API of review forms."""

from typing import Any

from pydantic import ValidationError
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from review import errors
from review.common.actions import Body, answers
from review.common.api import HasRight, NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, rows_of, serializer_of
from review.forms import queries, services
from review.forms.design import Design, FormFault, design_from_json, design_to_json, unknown_names
from review.labels import translate
from review.models import ReviewForm
from review.rules.permissions import Can

FORM_IN_FORCE: Fields = {
    "benchmark": serializers.CharField(),
    "version": serializers.IntegerField(help_text="0: none was published; `design` is that of the benchmark's folder."),
    "locked": serializers.DictField(
        child=serializers.CharField(), help_text="The questions that cannot be removed, and why."
    ),
    "design": serializers.JSONField(),
}


FormVersionSerializer = rows_of(
    "FormVersion",
    ReviewForm,
    "version design note at",
    "One version of a review form. `design` null: back to the form of the benchmark's folder.",
    author=serializers.CharField(source="author.username"),
)

PUBLISH_FORM_BODY: Fields = {
    "design": serializers.JSONField(allow_null=True),
    "note": serializers.CharField(max_length=500, allow_blank=True, default=""),
    "base": serializers.IntegerField(
        min_value=0,
        required=False,
        help_text="The version it was made from (0: none); default: the version in effect.",
    ),
}


def _design(data: object) -> Design | None:
    """The posted design. Raises DRF's ValidationError, with the location of each error."""
    if data is None:
        return None
    try:
        design = design_from_json(data)
    except ValidationError as invalid:
        lines = []
        for error in invalid.errors()[:20]:
            lines.append(f"{'.'.join(map(str, error['loc']))}: {error['msg']}")
        raise serializers.ValidationError({"design": lines}) from invalid
    if unknown := sorted(unknown_names(data, design_to_json(design))):
        raise serializers.ValidationError({"design": [f"{name}: unknown" for name in unknown[:20]]})
    return design


class ReviewFormViewSet(GenericViewSet[ReviewForm]):
    """Review forms."""

    can = Can.OVERSEE
    permission_classes = [HasRight]
    serializer_class = FormVersionSerializer

    @answers(FORM_IN_FORCE, many=True)
    def list(self, request: Request) -> Any:
        """The review form in effect of each benchmark."""
        content = []
        for benchmark in queries.names():
            row = queries.form_in_force(benchmark)
            version = 0
            if row:
                version = row.version
            content.append(
                {
                    "benchmark": benchmark,
                    "version": version,
                    "design": design_to_json(queries.design_of(benchmark, row)),
                    "locked": {key: translate(reason) for key, reason in queries.locked(benchmark).items()},
                }
            )
        return content

    @answers(FormVersionSerializer, paged=True, operation_id="review_forms_versions_list")
    @action(detail=False, url_path="<slug:benchmark>", pagination_class=NewestFirst)
    def versions(self, request: Request, benchmark: str) -> Any:
        """All versions of a benchmark's review form, newest first."""
        if benchmark not in queries.names():
            raise errors.UnknownForm
        return queries.versions(benchmark)

    @answers(FormVersionSerializer, body=PUBLISH_FORM_BODY)
    @versions.mapping.post  # type: ignore[untyped-decorator]
    def publish(self, request: Request, body: Body, benchmark: str) -> Any:
        """Put a form in effect for cases opened from now on; null is the form of the benchmark's
        folder. An earlier version is restored by publishing its design. The form is faulty: 422;
        another version than `base` is in effect: 409.
        """
        body["design"] = _design(body["design"])
        return services.publish(signed_in_account(request), benchmark=benchmark, **body)

    @answers(
        {"faults": serializer_of(FormFault)(many=True)},
        body={"design": serializers.JSONField(help_text="A form to check.")},
    )
    @action(detail=False, methods=["post"], url_path="<slug:benchmark>/check")
    def check(self, request: Request, body: Body, benchmark: str) -> Any:
        """Check a form for everything that prevents its publication: `faults`. Nothing is stored."""
        design = _design(body["design"])
        if design is None:
            return {"faults": []}
        return {"faults": services.faults(benchmark, design)}
