from django.apps import AppConfig


class ReviewConfig(AppConfig):
    name = "review"

    def ready(self) -> None:
        import review.people.accounts  # noqa: F401  # its receiver writes the event of every account that is made
