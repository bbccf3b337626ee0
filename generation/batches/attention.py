"""Panels of the overview: first steps of a new site, batches without result for physicians."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from generation.models import Batch, Endpoint, SampleVersion, Source
from generation.models.work import Work
from review.assignments import case_queue
from review.common.figures import figure
from review.models import Review, User
from review.rules.permissions import UserRole

REVIEWERS = 4  # a first reviewer, a second one, and two adjudicators if they disagree
SHOWN = 10


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step from an empty site to its first review: what to do, why, and where."""

    label: str
    why: str
    address: str
    done: bool


def first_steps(_shown: object) -> Mapping[str, Sequence[FirstStep]]:
    """The steps to the first review; none once all are done, or once a case was reviewed."""
    if Review.objects.exists():
        return {"first_steps": []}
    physicians = User.objects.filter(role=UserRole.PHYSICIAN, is_active=True)
    people = physicians.filter(paused_at=None).count()
    steps = [
        FirstStep(
            _("Add four physicians"),
            _("A first reviewer, a second reviewer, and two adjudicators for cases on which they disagree."),
            reverse("review:people"),
            people >= REVIEWERS,
        ),
        FirstStep(
            _("Set the languages that each of them reads"),
            _("Physicians without languages on record are offered cases in any language."),
            reverse("review:people"),
            people > 0 and not physicians.filter(languages=[]).exists(),
        ),
        FirstStep(
            _("Add an endpoint and test it"),
            _("A model at an address. The test asks it one question."),
            reverse("generation:endpoints"),
            any(test.get("answered") for test in Endpoint.objects.values_list("last_test", flat=True) if test),
        ),
        FirstStep(
            _("Import a source"),
            _("The records that samples are made from."),
            reverse("generation:sources"),
            Source.objects.filter(records__isnull=False).exists(),
        ),
        FirstStep(
            _("Launch a batch"),
            _("It makes samples and opens their cases for review."),
            reverse("generation:batches"),
            SampleVersion.objects.exists(),
        ),
    ]
    if all(step.done for step in steps):
        return {"first_steps": []}
    return {"first_steps": steps}


def fruitless_batches(_shown: object) -> Mapping[str, Any]:
    """Finished batches that made no sample, and those with cases that no physician could take.

    `empty`: the batches; `unreachable`: (batch, number of its open cases that nobody can take).
    """
    counts = cases_out_of_reach()
    finished = Batch.objects.filter(status=Batch.Status.FINISHED).in_bulk(list(counts)[:SHOWN])
    return {
        "empty": without_sample()[:SHOWN],
        "unreachable": [(batch, counts[pk]) for pk, batch in finished.items()],
    }


def without_sample() -> QuerySet[Batch]:
    """The finished batches that made no sample, the newest first, with the numbers of their drafts.

    `total`, `dropped_count` and `failed_count`.
    """
    made = SampleVersion.objects.filter(draft__batch=OuterRef("pk"))
    finished = Batch.objects.filter(~Exists(made), status=Batch.Status.FINISHED, archived_at=None)
    return finished.annotate(
        total=Count("drafts"),
        dropped_count=Count("drafts", filter=Q(drafts__status=Work.Status.DROPPED)),
        failed_count=Count("drafts", filter=Q(drafts__status=Work.Status.FAILED)),
    ).order_by("-pk")


@figure(())
def cases_out_of_reach() -> dict[int, int]:
    """Batch -> number of its open cases that no physician could take."""
    cases = case_queue.out_of_reach().values("case")
    rows = SampleVersion.objects.filter(case__in=cases).values_list("draft__batch").order_by("draft__batch")
    return dict(rows.annotate(n=Count("pk")))
