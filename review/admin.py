"""Django's own admin, for whoever keeps the machine: accounts can be changed, cases only looked at. Drafts are not here."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model
from django.http import HttpRequest

from review.models import Assignment, Case, Event, Review, User
from review.permissions import Can, allowed


@admin.register(User)
class Accounts(UserAdmin):  # type: ignore[type-arg]
    """Accounts with their role."""

    list_display = ("username", "role", "hospital", "is_active", "is_staff")
    list_filter = ("role", "is_active")
    fieldsets = (*(UserAdmin.fieldsets or ()), ("MHB", {"fields": ("role", "hospital", "specialty", "languages")}))
    add_fieldsets = (*UserAdmin.add_fieldsets, ("MHB", {"fields": ("role", "hospital", "specialty")}))


class LookedAt(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that services write and nobody else: shown to who oversees cases, never changed here."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return allowed(request.user, Can.OVERSEE) and super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Case)
class Cases(LookedAt):
    """Cases."""

    list_display = ("id", "title", "version", "benchmark", "state", "priority")
    list_filter = ("state", "benchmark")
    search_fields = ("title", "lineage")


@admin.register(Assignment)
class Assignments(LookedAt):
    """Who holds what; the fencing tokens are not shown."""

    list_display = ("id", "case", "role", "phase", "hold", "physician", "lease_until")
    list_filter = ("hold", "role")
    list_select_related = ("case", "physician")
    exclude = ("token",)


@admin.register(Review)
class Reviews(LookedAt):
    """What was submitted."""

    list_display = ("id", "case", "role", "phase", "physician", "verdict", "submitted_at")
    list_filter = ("role", "phase", "verdict")
    list_select_related = ("case", "physician")


@admin.register(Event)
class Events(LookedAt):
    """The trail."""

    list_display = ("id", "case", "kind", "actor", "at")
    list_filter = ("kind",)
    list_select_related = ("case", "actor")
