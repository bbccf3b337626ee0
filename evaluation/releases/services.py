"""Publishes the results of releases, and withdraws them."""

from django.db import transaction
from django.utils import timezone

from evaluation import errors
from evaluation.models import Publication
from evaluation.releases import queries
from generation.models import Release
from review.models import User
from review.rules.permissions import Can, Operator, require


@transaction.atomic
def publish(release: Release, *, actor: User | Operator) -> Publication:
    """Let anybody read the results of a release. Published already: nothing changes."""
    require(actor, Can.PRODUCE)
    Release.objects.select_for_update(no_key=True).get(pk=release.pk)  # two at once publish it once
    found = queries.publication(release)
    if found is None:
        by = actor if isinstance(actor, User) else None
        found = Publication.objects.create(release=release, published_by=by, published_at=timezone.now())
    return found


@transaction.atomic
def withdraw(release: Release, *, actor: User | Operator) -> Publication:
    """Take the public page away again, at once. Raises NotPublished."""
    require(actor, Can.PRODUCE)
    found = Publication.objects.select_for_update().filter(release=release, withdrawn_at=None).first()
    if found is None:
        raise errors.NotPublished
    found.withdrawn_by = actor if isinstance(actor, User) else None
    found.withdrawn_at = timezone.now()
    found.save(update_fields=["withdrawn_by", "withdrawn_at"])
    return found
