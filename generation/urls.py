"""URLs of the pages of generation."""

from django.urls import path

from generation.batches import views as batches_views
from generation.comparisons import views as comparisons_views
from generation.drafts import views as drafts_views
from generation.endpoints import views as endpoints_views
from generation.jobs import views as jobs_views
from generation.merges import views as merges_views
from generation.notifications import views as notifications_views
from generation.outcomes import views as outcomes_views
from generation.probes import views as probes_views
from generation.prompts import views as prompts_views
from generation.releases import views as releases_views
from generation.removal import views as removal_views
from generation.samples import views as samples_views
from generation.sources import views as sources_views

app_name = "generation"

urlpatterns = [
    path("sources/", sources_views.sources, name="sources"),
    path("sources/<slug:name>/", sources_views.source, name="source"),
    path("sources/<slug:name>/tables/<str:token>/", sources_views.source_table, name="source-table"),
    path("sources/<slug:name>/imports/", sources_views.source_imports, name="source-imports"),
    path("sources/<slug:name>/probes/", probes_views.source_probes, name="source-probes"),
    path("sources/<slug:name>/records/<int:pk>/", sources_views.record, name="record"),
    path("imports/<int:pk>/cancel/", batches_views.import_cancel, name="import-cancel"),
    path("endpoints/", endpoints_views.endpoints, name="endpoints"),
    path("new-endpoint/", endpoints_views.endpoint_new, name="endpoint-new"),
    path("endpoints/<slug:name>/", endpoints_views.endpoint, name="endpoint"),
    path("endpoints/<slug:name>/disable/", endpoints_views.endpoint_disable, name="endpoint-disable"),
    path("endpoints/<slug:name>/delete/", endpoints_views.endpoint_delete, name="endpoint-delete"),
    path("endpoints/<slug:name>/endings/", endpoints_views.endpoint_ending, name="endpoint-ending"),
    path("endpoints/<slug:name>/test/", endpoints_views.endpoint_test, name="endpoint-test"),
    path("webhooks/", notifications_views.webhooks, name="webhooks"),
    path("new-webhook/", notifications_views.webhook_new, name="webhook-new"),
    path("webhooks/<slug:name>/", notifications_views.webhook, name="webhook"),
    path("deliveries/", notifications_views.deliveries, name="deliveries"),
    path("webhooks/<slug:name>/delete/", notifications_views.webhook_delete, name="webhook-delete"),
    path("webhooks/<slug:name>/test/", notifications_views.webhook_test, name="webhook-test"),
    path("prompts/", prompts_views.prompts, name="prompts"),
    path("prompts/<slug:benchmark>/compare/", prompts_views.prompts_compare, name="prompts-compare"),
    path("prompts/<slug:benchmark>/<str:name>/", prompts_views.prompt_set, name="prompt-set"),
    path("prompts/<slug:benchmark>/<str:name>/edit/", prompts_views.prompts_edit, name="prompts-edit"),
    path("removal/<slug:kind>/<int:pk>/", removal_views.removal, name="removal"),
    path("batches/", batches_views.batches, name="batches"),
    path("batches/new/", batches_views.batch_new, name="batch-new"),
    path("batches/<int:pk>/", batches_views.batch, name="batch"),
    *jobs_views.routes("generation"),
    path("batches/<int:pk>/analysis/", batches_views.batch_analysis, name="batch-analysis"),
    path("batches/<int:pk>/funnel.svg", batches_views.batch_funnel, name="batch-funnel"),
    path("batches/<int:pk>/probes/", probes_views.batch_probes, name="batch-probes"),
    path("batches/<int:pk>/checks/", drafts_views.findings, name="findings"),
    path("batches/<int:pk>/costs/", batches_views.batch_costs, name="batch-costs"),
    path("batches/<int:pk>/merges/", merges_views.merges, name="merges"),
    path("drafts/<int:pk>/undo-merge/", merges_views.merge_undo, name="merge-undo"),
    path("drafts/<int:pk>/", drafts_views.draft, name="draft"),
    path("drafts/<int:pk>/send-to-review/", drafts_views.draft_send_to_review, name="draft-send-to-review"),
    path("drafts/<int:pk>/discard/", drafts_views.draft_discard, name="draft-discard"),
    path("reviewers/<int:person_id>/reopen/", outcomes_views.reopen, name="reopen"),
    path("attempts/", outcomes_views.attempts, name="attempts"),
    path("comparisons/", comparisons_views.comparisons, name="comparisons"),
    path("comparisons/<int:pk>/", comparisons_views.comparison, name="comparison"),
    path(
        "comparisons/<int:pk>/records/<int:record_id>/", comparisons_views.comparison_record, name="comparison-record"
    ),
    path("samples/", samples_views.samples, name="samples"),
    path("samples/<int:pk>/", samples_views.sample, name="sample"),
    path("samples/<int:pk>/report/", samples_views.sample_report, name="sample-report"),
    path("samples/<int:pk>/retry/", samples_views.sample_retry, name="sample-retry"),
    path("samples/<int:pk>/draw-again/", samples_views.sample_draw_again, name="sample-draw-again"),
    path("reviews/<int:review_id>/report/", samples_views.review_report, name="review-report"),
    path("samples/<int:pk>/withdraw/", samples_views.sample_withdraw, name="sample-withdraw"),
    path("samples/<int:pk>/dismiss/", samples_views.sample_dismiss, name="sample-dismiss"),
    path("drafts/<int:pk>/calls/", samples_views.calls, name="calls"),
    path("releases/", releases_views.releases, name="releases"),
    path("releases/new/", releases_views.release_new, name="release-new"),
    path("releases/freezes/", releases_views.freezes, name="freezes"),
    path("releases/<slug:name>/<int:version>/", releases_views.release, name="release"),
    path("releases/<slug:name>/<int:version>/funnel.svg", releases_views.release_funnel, name="release-funnel"),
    path("releases/<slug:name>/<int:version>/probes/", probes_views.release_probes, name="release-probes"),
    path("releases/<slug:name>/<int:version>/samples/", releases_views.release_samples, name="release-samples"),
    path(
        "releases/<slug:name>/<int:version>/samples/<path:key>/", releases_views.release_sample, name="release-sample"
    ),
    path("releases/<slug:name>/<int:version>/card/", releases_views.release_card, name="release-card"),
    path("releases/<slug:name>/<int:version>/changes/", releases_views.release_changes, name="release-changes"),
    path(
        "releases/<slug:name>/<int:version>/export/<slug:format_name>/",
        releases_views.release_export,
        name="release-export",
    ),
    path("releases/<slug:name>/<int:version>/ratings.csv", releases_views.release_ratings, name="release-ratings"),
]
