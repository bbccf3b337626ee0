"""Addresses of the pages of evaluation."""

from django.urls import path

from evaluation.reports import views as reports_views
from evaluation.runs import views as runs_views

app_name = "evaluation"

urlpatterns = [
    path("runs/", runs_views.runs, name="runs"),
    path("runs/new/", runs_views.run_new, name="run-new"),
    path("runs/<int:pk>/", runs_views.run, name="run"),
    path("runs/<int:pk>/progress/", runs_views.run_progress, name="run-progress"),
    path("runs/<int:pk>/failures/", runs_views.run_failures, name="run-failures"),
    path("runs/<int:pk>/cancel/", runs_views.run_cancel, name="run-cancel"),
    path("runs/<int:pk>/pause/", runs_views.run_pause, name="run-pause"),
    path("runs/<int:pk>/resume/", runs_views.run_resume, name="run-resume"),
    path("runs/<int:pk>/budget/", runs_views.run_budget, name="run-budget"),
    path("runs/<int:pk>/retry/", runs_views.run_retry, name="run-retry"),
    path("runs/<int:pk>/report.json", reports_views.report_json, name="report-json"),
    path("runs/<int:pk>/report.csv", reports_views.report_csv, name="report-csv"),
    path("runs/<int:pk>/report.md", reports_views.report_markdown, name="report-markdown"),
    path("runs/<int:pk>/judgments/", reports_views.judgments, name="judgments"),
    path("runs/<int:pk>/judgments/<int:judgment_id>/calls/", reports_views.calls, name="calls"),
]
