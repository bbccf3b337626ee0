from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "evaluation"

    def ready(self) -> None:
        from evaluation.runs import queries
        from review.common import panels

        panels.register(
            "release", "evaluation/runs/_on_release.html", lambda release: {"runs": queries.runs_on(release)}
        )
