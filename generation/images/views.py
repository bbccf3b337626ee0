"""The view of images."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from generation.images.responses import image_response
from review.access.pictures import may_see_picture
from review.common.decorators import signed_in_account


@require_safe
@login_required
def image(request: HttpRequest, sha256: str) -> HttpResponse:
    """A stored image, or its thumbnail (`?size=thumbnail`).

    404 both for an image that does not exist and for one that the reader may not see.
    """
    if not may_see_picture(signed_in_account(request), sha256, request.GET.get("seen", "")):
        raise Http404
    return image_response(request, sha256, thumbnail=request.GET.get("size") == "thumbnail")
