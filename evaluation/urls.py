"""URLs of the evaluation pages."""

from django.urls import path

from evaluation.answers import views as answers_views
from evaluation.human_baseline import views as human_baseline_views
from evaluation.interchange import views as interchange_views
from evaluation.judges import views as judges_views
from evaluation.playground import views as playground_views
from evaluation.releases import views as releases_views
from evaluation.reports import views as reports_views
from evaluation.runs import views as runs_views
from generation.jobs import views as jobs_views

app_name = "evaluation"

urlpatterns = [
    path("playground/", playground_views.playground, name="playground"),
    path("playground/<uuid:trial>/", playground_views.playground_replies, name="playground-replies"),
    path("runs/", runs_views.runs, name="runs"),
    path("runs/new/", runs_views.run_new, name="run-new"),
    path("runs/<int:pk>/", runs_views.run, name="run"),
    path("runs/<int:pk>/description/", runs_views.describe, name="run-describe"),
    path("runs/<int:pk>/models/<slug:name>/leave-out/", runs_views.leave_out, name="run-leave-out"),
    path("runs/<int:pk>/models/<slug:name>/add-again/", runs_views.add_again, name="run-add-again"),
    path("runs/import/", interchange_views.import_results, name="run-import"),
    path("result-imports/<int:pk>/", interchange_views.results_import, name="results-import"),
    path(
        "result-imports/<int:pk>/progress/", interchange_views.results_import_progress, name="results-import-progress"
    ),
    path("runs/<int:pk>/add-model/", interchange_views.add_model, name="run-add-model"),
    path("runs/<int:pk>/checks/", interchange_views.check_run, name="run-checks"),
    path("runs/<int:pk>/bundle/", interchange_views.run_bundle, name="run-bundle"),
    path("runs/<int:pk>/compare/", interchange_views.compare, name="run-compare"),
    *jobs_views.routes("evaluation"),
    path("runs/<int:pk>/report.json", reports_views.report_file, {"ending": "json"}, name="report-json"),
    path("runs/<int:pk>/report.csv", reports_views.report_file, {"ending": "csv"}, name="report-csv"),
    path("runs/<int:pk>/report.md", reports_views.report_file, {"ending": "md"}, name="report-markdown"),
    path("runs/<int:pk>/report.tex", reports_views.report_file, {"ending": "latex"}, name="report-latex"),
    path("runs/<int:pk>/validation/", judges_views.validation, name="validation"),
    path("runs/<int:pk>/figures/<slug:name>.svg", reports_views.figure_file, {"ending": "svg"}, name="figure-svg"),
    path("runs/<int:pk>/figures/<slug:name>.csv", reports_views.figure_file, {"ending": "csv"}, name="figure-csv"),
    path("runs/<int:pk>/human-baseline/", human_baseline_views.human_baseline, name="human-baseline"),
    path("releases/<slug:name>/<int:version>/results/", releases_views.results, name="results"),
    path("releases/<slug:name>/<int:version>/publish/", releases_views.publish, name="publish-results"),
    path("releases/<slug:name>/<int:version>/withdraw/", releases_views.withdraw, name="withdraw-results"),
    path("runs/<int:pk>/judgments/", answers_views.judgments, name="judgments"),
    path("runs/<int:pk>/judgments/<int:judgment_id>/calls/", answers_views.calls, name="calls"),
    path("runs/<int:pk>/changes/", answers_views.changes, name="changes"),
    path("runs/<int:pk>/changes/figures/<slug:name>.svg", answers_views.flow_file, {"ending": "svg"}, name="flow-svg"),
    path("runs/<int:pk>/changes/figures/<slug:name>.csv", answers_views.flow_file, {"ending": "csv"}, name="flow-csv"),
    path("runs/<int:pk>/changes/samples/", answers_views.changed, name="changed"),
    path("runs/<int:pk>/samples/<path:key>/", answers_views.sample, name="sample"),
]
