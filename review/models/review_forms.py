"""The versions of a benchmark's review form."""

from django.db import models
from django.db.models import Q

from review.models.people import User


class ReviewForm(models.Model):
    """A version of a benchmark's review form, as edited by admins; the newest one is in force.

    Append-only by database trigger. `design` has the format of `review.forms.design`; null restores
    the form in the benchmark's folder. Cases keep the questions and the policy with which they were
    opened, and the version number.
    """

    benchmark = models.CharField(max_length=64)
    version = models.PositiveIntegerField()
    design = models.JSONField(null=True)
    note = models.CharField(max_length=500, blank=True)
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["benchmark", "version"], name="review_form_versioned_once"),
            models.CheckConstraint(condition=Q(version__gte=1), name="review_form_from_one"),
            models.CheckConstraint(condition=~Q(benchmark=""), name="review_form_of_a_benchmark"),
        ]
