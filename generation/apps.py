from django.apps import AppConfig


class GenerationConfig(AppConfig):
    name = "generation"

    def ready(self) -> None:
        from generation.batches.kind import BATCHES
        from generation.jobs import kinds

        kinds.register(BATCHES)
