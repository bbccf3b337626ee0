"""Addresses of the pages of evaluation."""

from django.urls import path

from evaluation import views

app_name = "evaluation"

urlpatterns = [
    path("runs/", views.runs, name="runs"),
    path("runs/new/", views.run_new, name="run-new"),
    path("runs/<int:pk>/", views.run, name="run"),
    path("runs/<int:pk>/progress/", views.run_progress, name="run-progress"),
    path("runs/<int:pk>/failures/", views.run_failures, name="run-failures"),
    path("runs/<int:pk>/cancel/", views.run_cancel, name="run-cancel"),
    path("runs/<int:pk>/pause/", views.run_pause, name="run-pause"),
    path("runs/<int:pk>/resume/", views.run_resume, name="run-resume"),
    path("runs/<int:pk>/budget/", views.run_budget, name="run-budget"),
    path("runs/<int:pk>/retry/", views.run_retry, name="run-retry"),
    path("runs/<int:pk>/report.json", views.report_json, name="report-json"),
    path("runs/<int:pk>/report.csv", views.report_csv, name="report-csv"),
    path("runs/<int:pk>/report.md", views.report_markdown, name="report-markdown"),
    path("runs/<int:pk>/judgments/", views.judgments, name="judgments"),
    path("runs/<int:pk>/judgments/<int:judgment_id>/calls/", views.calls, name="calls"),
]
