"""The back office: rows to inspect, taxonomy terms to add.

Records and the ledger have pages of their own.
"""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from generation.models import Batch, Endpoint, Import, ProviderBatch, Release, Sample, Source, TaxonomyTerm
from generation.samples import services
from review.common.back_office import ReadOnlyAdmin
from review.common.decorators import signed_in_account
from review.rules.permissions import Can, allowed


@admin.register(Source)
class SourceAdmin(ReadOnlyAdmin):
    list_display = ["name", "format", "licence", "created_at"]


@admin.register(Import)
class ImportAdmin(ReadOnlyAdmin):
    list_display = ["pk", "source", "file_name", "status", "rows", "refused", "created_at"]
    list_select_related = ["source"]
    list_filter = ["status"]


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyAdmin):
    list_display = ["name", "url", "model", "key_env", "simulated"]


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    list_display = ["pk", "benchmark", "source", "status", "created_at"]
    list_select_related = ["source"]
    list_filter = ["status", "benchmark"]


@admin.register(ProviderBatch)
class ProviderBatchAdmin(ReadOnlyAdmin):
    list_display = [
        "pk",
        "job",
        "endpoint",
        "state",
        "remote_status",
        "lines_count",
        "answered",
        "refused",
        "missing",
        "error",
    ]
    list_select_related = ["job", "endpoint"]
    list_filter = ["state"]


@admin.register(Sample)
class SampleAdmin(ReadOnlyAdmin):
    list_display = ["key", "batch", "status", "created_at"]
    list_select_related = ["batch"]
    list_filter = ["status", "benchmark", "task"]


@admin.register(Release)
class ReleaseAdmin(ReadOnlyAdmin):
    list_display = ["name", "version", "benchmark", "samples_count", "rubrics_count", "sha256", "created_at"]


@admin.register(TaxonomyTerm)
class TaxonomyTermAdmin(ReadOnlyAdmin):
    """Terms in addition to those of the benchmarks.

    None can be deleted, as samples refer to them.
    """

    list_display = ["benchmark", "code", "parent", "label"]
    list_filter = ["benchmark"]

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return allowed(request.user, Can.PRODUCE)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return allowed(request.user, Can.PRODUCE)

    def save_model(self, request: HttpRequest, obj: TaxonomyTerm, form: Any, change: bool) -> None:
        services.save_term(obj, actor=signed_in_account(request))
