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
    """Let anybody read the results of a release. Has no effect if they are published already."""
    require(actor, Can.PRODUCE)
    Release.objects.select_for_update(no_key=True).get(pk=release.pk)  # serializes concurrent calls
    publication = queries.publication(release)
    if publication is None:
        publication = Publication.objects.create(release=release, published_by_id=actor.pk, published_at=timezone.now())
    return publication


@transaction.atomic
def withdraw(release: Release, *, actor: User | Operator) -> Publication:
    """Withdraw the public page, effective at once. Raises NotPublished."""
    require(actor, Can.PRODUCE)
    publication = Publication.objects.select_for_update().filter(release=release, withdrawn_at=None).first()
    if publication is None:
        raise errors.NotPublished
    publication.withdrawn_by_id = actor.pk
    publication.withdrawn_at = timezone.now()
    publication.save(update_fields=["withdrawn_by", "withdrawn_at"])
    return publication
