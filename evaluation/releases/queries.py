"""Queries of publications."""

from django.db.models import QuerySet

from evaluation.models import Publication
from generation.models import Release


def publication(release: Release) -> Publication | None:
    """The current publication of a release; None if it is not public."""
    return Publication.objects.filter(release=release, withdrawn_at=None).first()


def published_releases(name: str) -> QuerySet[Release]:
    """The published versions of a release, the latest first."""
    current = Publication.objects.filter(withdrawn_at=None)
    return Release.objects.filter(name=name, publications__in=current).order_by("-version")
