"""The versions of a benchmark's review form."""

from django.db import models
from django.db.models import Q

from review.models.people import User


class ReviewForm(models.Model):
    """What admins made of a benchmark's review form: append-only, by database trigger; the newest version is in force.

    `design` is as `review.forms.design` writes it; null: back to the form of the benchmark's folder. Cases keep the questions
    and the policy that they were opened with, and the number of the version.
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
