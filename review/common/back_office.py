"""Django's admin without what goes past the services and their events."""

from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect


class ReadOnly(ModelAdmin):  # type: ignore[type-arg]
    """Rows that services write and nobody else. The site registers nothing that is not made from this class."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class BackOffice(AdminSite):
    """Shows the pages that are made from `ReadOnly` and no others.

    What other apps register (API tokens, groups, addresses, second factors) writes rows as they are typed, so it is left out,
    and so is whatever the next version of one of them brings.
    """

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        if admin_class is not None and issubclass(admin_class, ReadOnly):
            super().register(model_or_iterable, admin_class, **options)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # type: ignore[override]
        """The site's own page leaves an event and ends the API tokens."""
        return redirect("account_change_password")
