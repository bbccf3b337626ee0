"""Django's admin, read-only, so that nothing bypasses the services and their events."""

from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.views.main import ERROR_FLAG
from django.db import DataError
from django.db.models import Model
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[type-arg]
    """An admin page for rows that only services write, the only kind that `BackOffice` accepts."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Only filters that the page offers: any other would tell what its rows hide."""
        offered = {"pk", self.opts.pk.name, *self.list_filter}
        field = lookup.split(LOOKUP_SEP)[0]
        return field in offered and super().lookup_allowed(lookup, value, request)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list; values of filters that no row can have lead to the list without them."""
        try:
            return super().changelist_view(request, extra_context)
        except (ValueError, OverflowError, DataError):  # a year beyond 9999, a number beyond the column
            return redirect(f"{request.path}?{ERROR_FLAG}=1")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class BackOffice(AdminSite):
    """Registers only `ReadOnlyAdmin` pages.

    The pages of other apps (API tokens, groups, email addresses, second factors) write rows
    directly, without services. They are ignored, including any that a later version of those apps
    adds.
    """

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        if admin_class is not None and issubclass(admin_class, ReadOnlyAdmin):
            super().register(model_or_iterable, admin_class, **options)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # type: ignore[override]
        """Redirect to the site's own page, which records an event and revokes the API tokens."""
        return redirect("account_change_password")
