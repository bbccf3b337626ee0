from django.apps import AppConfig


class GenerationConfig(AppConfig):
    name = "generation"

    def ready(self) -> None:
        from generation.batches.kind import BATCHES
        from generation.jobs import kinds, overview
        from generation.outcomes import reopening
        from generation.recipes import registry
        from generation.samples import errata
        from review.common import panels
        from review.labels import register_labels

        kinds.register(BATCHES)
        register_labels(benchmark=registry.label, task=registry.task_label)
        panels.register("attention", "generation/jobs/_failing_endpoints.html", overview.problems)
        panels.register("attention", "generation/jobs/_jobs_needing_attention.html", overview.jobs_needing_attention)
        panels.register("attention", "generation/samples/_undecided.html", errata.undecided_reports)
        panels.register("in-progress", "generation/jobs/_jobs_in_progress.html", overview.jobs_in_progress)
        panels.register("cost", "generation/jobs/_week.html", overview.cost)
        panels.register("case", "generation/samples/_on_case.html", errata.case_context)
        panels.register("reviewer", "generation/outcomes/_on_reviewer.html", reopening.reviewer_context)
        panels.register("own-review", "generation/samples/_own_review.html", errata.own_review_context)
