"""The progress of a demo that is loading, for pages that were opened meanwhile."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from mhb_site.demo import progress


def loading(request: HttpRequest) -> HttpResponse:
    """The banner of the demo's progress; at the end, a link that shows the page anew."""
    if not request.htmx:  # type: ignore[attr-defined]
        raise Http404
    return render(request, "components/demo_loading.html", {"demo": progress.read(), "asked": True})
