"""The back office: runs to look at. Responses and judgments have their own page."""

from django.contrib import admin

from evaluation.models import Run
from review.common.back_office import ReadOnly


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ["pk", "release", "judge", "status", "created_at"]
    list_select_related = ["release", "judge"]
    list_filter = ["status"]
