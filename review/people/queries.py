"""Lists of people."""

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from review.access.visibility import LEAVES, WEEK, counted_reviews
from review.models import Assignment, Case, Event, User
from review.rules.permissions import UserRole

Hold = Assignment.Hold


def people(*, text: str = "", role: str = "", specialty: str = "", status: str = "") -> QuerySet[User]:
    """Accounts by name, each with `done` (cases with a review of theirs, copies aside), `held` (cases in hand) and
    `left` (cases given back or declined within a week)."""
    lately = Event.objects.filter(actor=OuterRef("pk"), kind__in=LEAVES, at__gte=timezone.now() - WEEK)
    left = lately.order_by().values("actor")
    done = counted_reviews().filter(physician=OuterRef("pk"), case__kind=Case.Kind.WORK).order_by().values("physician")
    held = Assignment.objects.filter(physician=OuterRef("pk"), hold=Hold.HELD).order_by().values("physician")
    found = User.objects.all()
    if text:
        named = Q(username__icontains=text) | Q(first_name__icontains=text) | Q(last_name__icontains=text)
        found = found.filter(named | Q(hospital__icontains=text) | Q(institution__icontains=text))
    if role:
        found = found.filter(role=role)
    if specialty:
        found = found.filter(specialty__icontains=specialty)
    if status == "closed":
        found = found.filter(is_active=False)
    elif status == "invited":
        found = found.filter(is_active=True, invited_at__isnull=False)
    elif status:
        found = found.filter(is_active=True, paused_at__isnull=status != "paused")
    return found.annotate(
        done=Coalesce(Subquery(done.annotate(n=Count("case", distinct=True)).values("n")), 0),
        left=Coalesce(Subquery(left.annotate(n=Count("pk")).values("n")), 0),
        held=Coalesce(Subquery(held.annotate(n=Count("pk")).values("n")), 0),
    ).order_by("-is_active", "role", "username")


def reviewers() -> QuerySet[User]:
    """Physicians to whom a case can be handed, by name."""
    return User.objects.filter(role=UserRole.PHYSICIAN, is_active=True).order_by("username")
