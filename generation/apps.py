from django.apps import AppConfig


class GenerationConfig(AppConfig):
    name = "generation"

    def ready(self) -> None:
        from generation.batches.kind import BATCHES
        from generation.jobs import kinds, overview
        from generation.recipes import registry
        from generation.samples import errata
        from review.common import panels
        from review.labels import name_benchmarks, name_tasks

        kinds.register(BATCHES)
        name_benchmarks(registry.label)
        name_tasks(registry.task_label)
        panels.register("attention", "generation/jobs/_trouble.html", overview.trouble)
        panels.register("attention", "generation/jobs/_needing.html", overview.needing_jobs)
        panels.register("attention", "generation/samples/_undecided.html", errata.undecided)
        panels.register("in-progress", "generation/jobs/_going.html", overview.going_jobs)
        panels.register("cost", "generation/jobs/_week.html", overview.cost)
        panels.register("own-review", "generation/samples/_own_review.html", errata.of_own_review)
