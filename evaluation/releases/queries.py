"""What is read of publications."""

from django.db.models import QuerySet

from evaluation.models import Publication
from generation.models import Release


def publication(release: Release) -> Publication | None:
    """The publication of a release that is in force."""
    return Publication.objects.filter(release=release, withdrawn_at=None).first()


def published(name: str) -> QuerySet[Release]:
    """The published versions of a release, the latest first."""
    in_force = Publication.objects.filter(withdrawn_at=None)
    return Release.objects.filter(name=name, publications__in=in_force).order_by("-version")
