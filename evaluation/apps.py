from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "evaluation"

    def ready(self) -> None:
        from evaluation.runs import queries
        from evaluation.runs.kind import RUNS
        from generation.jobs import kinds
        from review.common import panels

        kinds.register(RUNS)
        on_release = "evaluation/runs/_on_release.html"
        panels.register("release", on_release, lambda release: {"runs": queries.runs().filter(release=release)})
