"""The view of images, and the response that the API gives too."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.views.decorators.http import require_safe

from generation.images import files
from review.access.pictures import may_see_picture
from review.common.decorators import signed_in_account

# The browser may cache it but asks each time: the answer is 304, or 404 for people who lost access.
REVALIDATED = "private, no-cache"


def image_response(request: HttpRequest, sha256: str, *, thumbnail: bool) -> HttpResponse:
    """The image with its type, or 304 if the client has it. Raises Http404."""
    etag = f'"{sha256}{"-thumbnail" if thumbnail else ""}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag, "Cache-Control": REVALIDATED})
    try:
        media_type, data = files.open_image(sha256, thumbnail=thumbnail)
    except files.NoImage:
        raise Http404 from None
    extension = media_type.rpartition("/")[2]
    return HttpResponse(
        data,
        content_type=media_type,
        headers={
            "ETag": etag,
            "Cache-Control": REVALIDATED,
            "Content-Disposition": f'inline; filename="{sha256[:16]}.{extension}"',
        },
    )


@require_safe
@login_required
def image(request: HttpRequest, sha256: str) -> HttpResponse:
    """A stored image, or its thumbnail (`?size=thumbnail`).

    404 both for an image that does not exist and for one that the reader may not see.
    """
    if not may_see_picture(signed_in_account(request), sha256, request.GET.get("seen", "")):
        raise Http404
    return image_response(request, sha256, thumbnail=request.GET.get("size") == "thumbnail")
