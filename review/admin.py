"""Django's own admin, for the machine's operator. Everything is only looked at, but for what a service does with its event:
the role of an account and its doors, and a second factor that is taken away. Drafts are not here."""

from typing import Any

from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt, AccessLog
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from review.common.back_office import ReadOnly
from review.common.decorators import signed_in_account
from review.models import Assignment, Case, Event, Review, User
from review.people import accounts
from review.rules.permissions import Can, UserRole, allowed


class LookedAt(ReadOnly):
    """Shown to who oversees cases."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return allowed(request.user, Can.OVERSEE) and super().has_view_permission(request, obj)


@admin.register(User)
class AccountAdmin(LookedAt):
    """Accounts. They are made, and get a new password, on the site's own pages."""

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
        """What was changed, by the services of the pages."""
        actor, said, changed = signed_in_account(request), form.cleaned_data, set(form.changed_data)
        if "role" in changed:
            accounts.set_role(obj.pk, UserRole(said["role"]), actor=actor)
        if "is_active" in changed:
            accounts.set_active(obj.pk, said["is_active"], actor=actor)
        if changed & {"is_staff", "is_superuser"}:
            accounts.set_keeper(obj.pk, staff=said["is_staff"], superuser=said["is_superuser"], actor=actor)


@admin.register(Authenticator)
class SecondFactorAdmin(LookedAt):
    """Second factors, to be taken away when they are lost. Everything that a person has goes together."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_filter = ("type",)
    list_select_related = ("user",)
    search_fields = ("user__username",)
    fields = ("user", "type", "created_at", "last_used_at")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return allowed(request.user, Can.OVERSEE) and admin.ModelAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request: HttpRequest, obj: Authenticator) -> None:
        accounts.take_second_factor(obj.user_id, actor=signed_in_account(request))

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Authenticator]) -> None:
        for user in sorted(set(queryset.values_list("user_id", flat=True))):
            accounts.take_second_factor(user, actor=signed_in_account(request))


@admin.register(AccessAttempt)
class FailedSignInAdmin(LookedAt):
    """Who has failed to sign in within the last quarter of an hour, and from where."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time", "path_info")
    fields = list_display
    search_fields = ("username", "ip_address")


@admin.register(AccessLog)
class SignInAdmin(LookedAt):
    """Who has signed in, and from where."""

    list_display = ("username", "ip_address", "attempt_time", "logout_time")
    fields = list_display
    search_fields = ("username", "ip_address")


@admin.register(Case)
class CaseAdmin(LookedAt):
    """CaseAdmin."""

    list_display = ("id", "title", "version", "benchmark", "state", "priority")
    list_filter = ("state", "benchmark")
    search_fields = ("title", "lineage")


@admin.register(Assignment)
class AssignmentAdmin(LookedAt):
    """Who holds what; the fencing tokens are not shown."""

    list_display = ("id", "case", "role", "phase", "hold", "physician", "lease_until")
    list_filter = ("hold", "role")
    list_select_related = ("case", "physician")
    exclude = ("token",)


@admin.register(Review)
class ReviewAdmin(LookedAt):
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
