"""Publishes the results of releases, and withdraws them."""

from django.db import transaction
from django.utils import timezone

from evaluation import errors
from evaluation.models import IncompletePublication, Publication
from evaluation.releases import queries
from evaluation.releases.leaderboard import incomplete_result
from generation.models import Release
from review.models import User
from review.rules.permissions import Can, Operator, require


@transaction.atomic
def publish(release: Release, *, actor: User | Operator) -> Publication:
    """Let anybody read the results of a release. Has no effect if they are published already.

    Results that are not complete are published one by one, by `publish_incomplete`.
    """
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
    publication = _current(release)
    publication.withdrawn_by_id = actor.pk
    publication.withdrawn_at = timezone.now()
    publication.save(update_fields=["withdrawn_by", "withdrawn_at"])
    return publication


@transaction.atomic
def publish_incomplete(
    release: Release, *, run: int, model: str, settled: int, criteria: int, actor: User | Operator
) -> Publication:
    """Show incomplete results of a model on the public page, with their coverage and no rank.

    `run`: its number. `settled`, `criteria`: the coverage that the caller names, as the number of
    settled criteria and of all. Has no effect if they are published already.
    Raises NotPublished, NotIncomplete, or OtherCoverage if this is not the coverage.
    """
    require(actor, Can.PRODUCE)
    publication = _current(release)
    result = incomplete_result(release, run, model)
    if result is None:
        raise errors.NotIncomplete(f"Run {run}, {model}.")
    coverage = result.coverage
    if (coverage.settled, coverage.criteria) != (settled, criteria):
        raise errors.OtherCoverage(f"{coverage.settled}/{coverage.criteria}.")
    rows = publication.incomplete.filter(run=run, endpoint=result.endpoint, withdrawn_at=None)
    if not rows.exists():
        IncompletePublication.objects.create(
            publication=publication,
            run=result.run,
            endpoint=result.endpoint,
            settled=settled,
            criteria=criteria,
            published_by_id=actor.pk,
            published_at=timezone.now(),
        )
    return publication


@transaction.atomic
def withdraw_incomplete(release: Release, *, run: int, model: str, actor: User | Operator) -> Publication:
    """Take incomplete results off the public page, effective at once. Raises NotPublished."""
    require(actor, Can.PRODUCE)
    publication = _current(release)
    shown = publication.incomplete.filter(run=run, endpoint__name=model, withdrawn_at=None)
    if not shown.update(withdrawn_at=timezone.now(), withdrawn_by_id=actor.pk):
        raise errors.NotPublished(f"Run {run}, {model}.")
    return publication


def _current(release: Release) -> Publication:
    """The current publication, locked. Raises NotPublished."""
    publication = Publication.objects.select_for_update().filter(release=release, withdrawn_at=None).first()
    if publication is None:
        raise errors.NotPublished
    return publication
