"""The back office: rows to look at. Records and the ledger have their own pages."""

from django.contrib import admin

from generation.models import Batch, Endpoint, Import, ProviderBatch, Release, Sample, Source, TaxonomyTerm
from review.back_office import ReadOnly


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
    list_select_related = ["endpoint"]
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
    list_display = ["benchmark", "code", "parent", "label"]
    list_filter = ["benchmark"]
