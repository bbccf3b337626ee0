"""HTTP responses with images."""

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified

from generation.images import files

# The browser may cache it but asks each time: the answer is 304, or 404 for people who lost access.
REVALIDATED = "private, no-cache"


def image_response(request: HttpRequest, sha256: str, *, thumbnail: bool) -> HttpResponse:
    """The image with its type, or 304 if the client has it. Raises Http404."""
    etag = f'"{sha256}"'
    if thumbnail:
        etag = f'"{sha256}-thumbnail"'
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
