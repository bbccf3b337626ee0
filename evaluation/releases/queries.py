"""Queries of publications."""

from django.db.models import QuerySet

from evaluation.models import IncompletePublication, Publication
from generation.models import Release


def publication(release: Release) -> Publication | None:
    """The current publication of a release; None if it is not public."""
    return Publication.objects.filter(release=release, withdrawn_at=None).first()


def incomplete_publications(release: Release) -> QuerySet[IncompletePublication]:
    """The incomplete results that the public page of a release shows, if it is public."""
    current = IncompletePublication.objects.filter(publication__release=release, publication__withdrawn_at=None)
    return current.filter(withdrawn_at=None).select_related("endpoint").order_by("pk")


def published_releases(name: str) -> QuerySet[Release]:
    """The published versions of a release, the latest first."""
    current = Publication.objects.filter(withdrawn_at=None)
    return Release.objects.filter(name=name, publications__in=current).order_by("-version")
