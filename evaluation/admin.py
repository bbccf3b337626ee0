"""Runs in the back office, read-only. Responses and judgments have a page of their own."""

from django.contrib import admin

from evaluation.models import Run
from review.common.back_office import ReadOnlyAdmin


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ["pk", "release", "judge", "status", "created_at"]
    list_select_related = ["release", "judge"]
    list_filter = ["status"]
