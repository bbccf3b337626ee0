"""The back office: rows to look at, and taxonomy terms to add. Records and the ledger have their own pages."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from generation.models import Batch, Endpoint, Import, ProviderBatch, Release, Sample, Source, TaxonomyTerm
from generation.samples import services
from review.common.back_office import ReadOnly
from review.common.decorators import signed_in_account
from review.rules.permissions import Can, allowed


@admin.register(Source)
class SourceAdmin(ReadOnly):
    list_display = ["name", "format", "licence", "created_at"]


@admin.register(Import)
class ImportAdmin(ReadOnly):
    list_display = ["pk", "source", "file_name", "status", "rows", "refused", "created_at"]
    list_select_related = ["source"]
    list_filter = ["status"]


@admin.register(Endpoint)
class EndpointAdmin(ReadOnly):
    list_display = ["name", "url", "model", "key_env", "simulated"]


@admin.register(Batch)
class BatchAdmin(ReadOnly):
    list_display = ["pk", "benchmark", "source", "status", "created_at"]
    list_select_related = ["source"]
    list_filter = ["status", "benchmark"]


@admin.register(ProviderBatch)
class ProviderBatchAdmin(ReadOnly):
    list_display = ["pk", "job", "endpoint", "state", "said", "lines_count", "answered", "refused", "missing", "error"]
    list_select_related = ["job", "endpoint"]
    list_filter = ["state"]


@admin.register(Sample)
class SampleAdmin(ReadOnly):
    list_display = ["key", "batch", "status", "created_at"]
    list_select_related = ["batch"]
    list_filter = ["status", "benchmark", "task"]


@admin.register(Release)
class ReleaseAdmin(ReadOnly):
    list_display = ["name", "version", "benchmark", "samples_count", "rubrics_count", "sha256", "created_at"]


@admin.register(TaxonomyTerm)
class TaxonomyTermAdmin(ReadOnly):
    """Terms beside those that a benchmark ships. None is deleted: samples are counted under it."""

    list_display = ["benchmark", "code", "parent", "label"]
    list_filter = ["benchmark"]

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return allowed(request.user, Can.PRODUCE)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return allowed(request.user, Can.PRODUCE)

    def save_model(self, request: HttpRequest, obj: TaxonomyTerm, form: Any, change: bool) -> None:
        services.save_term(obj, actor=signed_in_account(request))
