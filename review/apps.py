from django.apps import AppConfig


class ReviewConfig(AppConfig):
    name = "review"

    def ready(self) -> None:
        import review.people.accounts  # noqa: F401  # its receiver records the creation of accounts
