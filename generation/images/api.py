"""The API of images."""

from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from generation.images.responses import image_response
from generation.models import StoredImage
from review.access.pictures import may_see_picture
from review.common.decorators import signed_in_account


class ImageViewSet(GenericViewSet[StoredImage]):
    """Images that questions are about, by SHA-256."""

    permission_classes = [IsAuthenticated]
    queryset = StoredImage.objects.all()
    row = "<str:sha256>"

    @extend_schema(
        parameters=[
            OpenApiParameter("sha256", OpenApiTypes.STR, OpenApiParameter.PATH),
            OpenApiParameter("size", OpenApiTypes.STR, enum=["full", "thumbnail"]),
        ],
        responses={(200, "image/png"): OpenApiTypes.BINARY, (200, "image/jpeg"): OpenApiTypes.BINARY},
    )
    def retrieve(self, request: Request, sha256: str) -> HttpResponse:
        """An image, as JPEG or PNG without metadata.

        Physicians see those of their own cases; 404 for any other.
        """
        if not may_see_picture(signed_in_account(request), sha256):
            raise Http404
        return image_response(request._request, sha256, thumbnail=request.query_params.get("size") == "thumbnail")
