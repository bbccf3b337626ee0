from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "evaluation"

    def ready(self) -> None:
        from evaluation.runs import overview, queries
        from evaluation.runs.kind import RUNS
        from generation.jobs import kinds
        from review.common import panels

        kinds.register(RUNS)
        panels.register(
            "release", "evaluation/runs/_on_release.html", lambda release: {"runs": queries.runs_on(release)}
        )
        panels.register("attention", "generation/jobs/_needing.html", overview.needing_runs)
        panels.register("in-progress", "generation/jobs/_going.html", overview.going_runs)
