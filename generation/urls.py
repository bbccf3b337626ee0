"""Addresses of the pages of generation."""

from django.urls import path

from generation import views

app_name = "generation"

urlpatterns = [
    path("sources/", views.sources, name="sources"),
    path("sources/<slug:name>/", views.source, name="source"),
    path("sources/<slug:name>/imports/", views.source_imports, name="source-imports"),
    path("sources/<slug:name>/records/<int:pk>/", views.record, name="record"),
    path("imports/<int:pk>/cancel/", views.import_cancel, name="import-cancel"),
    path("endpoints/", views.endpoints, name="endpoints"),
    path("endpoints/<slug:name>/", views.endpoint, name="endpoint"),
    path("batches/", views.batches, name="batches"),
    path("batches/new/", views.batch_new, name="batch-new"),
    path("batches/<int:pk>/", views.batch, name="batch"),
    path("batches/<int:pk>/progress/", views.batch_progress, name="batch-progress"),
    path("batches/<int:pk>/analysis/", views.batch_analysis, name="batch-analysis"),
    path("batches/<int:pk>/failures/", views.batch_failures, name="batch-failures"),
    path("batches/<int:pk>/cancel/", views.batch_cancel, name="batch-cancel"),
    path("batches/<int:pk>/pause/", views.batch_pause, name="batch-pause"),
    path("batches/<int:pk>/resume/", views.batch_resume, name="batch-resume"),
    path("batches/<int:pk>/budget/", views.batch_budget, name="batch-budget"),
    path("batches/<int:pk>/retry/", views.batch_retry, name="batch-retry"),
    path("batches/<int:pk>/checks/", views.findings, name="findings"),
    path("drafts/<int:pk>/", views.draft, name="draft"),
    path("drafts/<int:pk>/let-through/", views.draft_let_through, name="draft-let-through"),
    path("drafts/<int:pk>/discard/", views.draft_discard, name="draft-discard"),
    path("attempts/", views.attempts, name="attempts"),
    path("comparisons/", views.comparisons, name="comparisons"),
    path("comparisons/<int:pk>/", views.comparison, name="comparison"),
    path("comparisons/<int:pk>/records/<int:record_id>/", views.comparison_record, name="comparison-record"),
    path("samples/", views.samples, name="samples"),
    path("samples/<int:pk>/", views.sample, name="sample"),
    path("drafts/<int:pk>/calls/", views.calls, name="calls"),
    path("releases/", views.releases, name="releases"),
    path("releases/<slug:name>/<int:version>/", views.release, name="release"),
    path("releases/<slug:name>/<int:version>/samples/", views.release_samples, name="release-samples"),
    path("releases/<slug:name>/<int:version>/export/<slug:format_name>/", views.release_export, name="release-export"),
]
