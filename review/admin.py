"""Django's admin, for the operator of the site.

Read-only except for changes made by services, which record events: an account's role, its access,
and removing a second factor. Drafts are not registered.
"""

from typing import Any

from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt, AccessLog
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from review.audit.trail import record_read
from review.common.back_office import ReadOnlyAdmin
from review.common.decorators import signed_in_account
from review.models import Assignment, Case, Event, Review, User
from review.people import accounts
from review.rules.permissions import Can, UserRole, allowed


class OverseerAdmin(ReadOnlyAdmin):
    """A read-only page for those who oversee cases."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return allowed(request.user, Can.OVERSEE) and super().has_view_permission(request, obj)


class CaseTextAdmin(OverseerAdmin):
    """A page of what is hidden from physicians of a case: opening it is recorded."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row: Any = super().get_object(request, object_id, from_field)
        if row is not None and self.has_view_permission(request, row):
            record_read(signed_in_account(request), getattr(row, "case", row))
        return row


@admin.register(User)
class AccountAdmin(OverseerAdmin):
    """Accounts. The site's own pages create them and set their passwords."""

    list_display = ("username", "role", "hospital", "is_active", "is_staff", "is_superuser")
    list_filter = ("role", "is_active", "is_staff")
    search_fields = ("username", "first_name", "last_name")
    ordering = ("username",)
    fields = ("username", "first_name", "last_name", "role", "is_active", "is_staff", "is_superuser", "last_login")
    readonly_fields = ("username", "first_name", "last_name", "last_login")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may = isinstance(request.user, User) and request.user.is_active and request.user.is_superuser
        return may and allowed(request.user, Can.OVERSEE)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Apply the changes through the services that the site's pages use."""
        actor, data, changed = signed_in_account(request), form.cleaned_data, set(form.changed_data)
        if "role" in changed:
            accounts.set_role(obj.pk, UserRole(data["role"]), actor=actor)
        if "is_active" in changed:
            accounts.set_active(obj.pk, data["is_active"], actor=actor)
        if changed & {"is_staff", "is_superuser"}:
            accounts.set_admin_access(obj.pk, staff=data["is_staff"], superuser=data["is_superuser"], actor=actor)


@admin.register(Authenticator)
class SecondFactorAdmin(OverseerAdmin):
    """Second factors. Deleting a lost one removes all factors of its owner."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_filter = ("type",)
    list_select_related = ("user",)
    search_fields = ("user__username",)
    fields = ("user", "type", "created_at", "last_used_at")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return allowed(request.user, Can.OVERSEE) and admin.ModelAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request: HttpRequest, obj: Authenticator) -> None:
        accounts.remove_second_factor(obj.user_id, actor=signed_in_account(request))

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Authenticator]) -> None:
        for user in sorted(set(queryset.values_list("user_id", flat=True))):
            accounts.remove_second_factor(user, actor=signed_in_account(request))


@admin.register(AccessAttempt)
class FailedSignInAdmin(OverseerAdmin):
    """Failed sign-ins of the last quarter of an hour, with their origin."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time", "path_info")
    fields = list_display
    search_fields = ("username", "ip_address")


@admin.register(AccessLog)
class SignInAdmin(OverseerAdmin):
    """Successful sign-ins, with their origin."""

    list_display = ("username", "ip_address", "attempt_time", "logout_time")
    fields = list_display
    search_fields = ("username", "ip_address")


@admin.register(Case)
class CaseAdmin(CaseTextAdmin):
    """Cases."""

    list_display = ("id", "title", "version", "benchmark", "state", "priority")
    list_filter = ("state", "benchmark")
    search_fields = ("title", "lineage")


@admin.register(Assignment)
class AssignmentAdmin(OverseerAdmin):
    """Assignments, without their fencing tokens."""

    list_display = ("id", "case", "role", "phase", "hold", "physician", "lease_until")
    list_filter = ("hold", "role")
    list_select_related = ("case", "physician")
    exclude = ("token",)


@admin.register(Review)
class ReviewAdmin(CaseTextAdmin):
    """Submitted reviews. The list names no verdict: who may see it is recorded for each case."""

    list_display = ("id", "case", "role", "phase", "physician", "submitted_at")
    list_filter = ("role", "phase")
    list_select_related = ("case", "physician")


@admin.register(Event)
class EventAdmin(CaseTextAdmin):
    """The audit trail of cases."""

    list_display = ("id", "case", "kind", "actor", "at")
    list_filter = ("kind",)
    list_select_related = ("case", "actor")
