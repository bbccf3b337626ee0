"""Queries for lists of people."""

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from review.access.visibility import RELEASED_BY_HOLDER, WEEK, counted_reviews
from review.errors import UnknownPhysician
from review.models import Assignment, Case, Event, User
from review.models.people import split_list
from review.rules.permissions import UserRole

Hold = Assignment.Hold


def physician(pk: int) -> User:
    """A physician. Raises UnknownPhysician."""
    found = User.objects.filter(pk=pk, role=UserRole.PHYSICIAN).first()
    if found is None:
        raise UnknownPhysician
    return found


def people(*, text: str = "", role: str = "", specialty: str = "", status: str = "") -> QuerySet[User]:
    """Accounts by name, with counts of their cases.

    `done`: cases that they have reviewed, except copies. `held`: cases in progress. `left`: cases
    returned or declined within a week.
    """
    returns = Event.objects.filter(actor=OuterRef("pk"), kind__in=RELEASED_BY_HOLDER, at__gte=timezone.now() - WEEK)
    left = returns.order_by().values("actor")
    done = counted_reviews().filter(physician=OuterRef("pk"), case__kind=Case.Kind.WORK).order_by().values("physician")
    held = Assignment.objects.filter(physician=OuterRef("pk"), hold=Hold.HELD).order_by().values("physician")
    accounts = User.objects.all()
    if text:
        name_matches = Q(username__icontains=text) | Q(first_name__icontains=text) | Q(last_name__icontains=text)
        accounts = accounts.filter(name_matches | Q(hospital__icontains=text) | Q(institution__icontains=text))
    if role:
        accounts = accounts.filter(role=role)
    if specialty:
        accounts = accounts.filter(specialty__icontains=specialty)
    if status == "closed":
        accounts = accounts.filter(is_active=False)
    elif status == "invited":
        accounts = accounts.filter(is_active=True, invited_at__isnull=False)
    elif status:
        accounts = accounts.filter(is_active=True, paused_at__isnull=status != "paused")
    return accounts.annotate(
        done=Coalesce(Subquery(done.annotate(n=Count("case", distinct=True)).values("n")), 0),
        left=Coalesce(Subquery(left.annotate(n=Count("pk")).values("n")), 0),
        held=Coalesce(Subquery(held.annotate(n=Count("pk")).values("n")), 0),
    ).order_by("-is_active", "role", "username")


def physicians_specialties(most: int = 50) -> tuple[str, ...]:
    """The specialties of active physicians, in alphabetical order."""
    physicians = User.objects.filter(role=UserRole.PHYSICIAN, is_active=True).exclude(specialty="")
    listed = physicians.order_by("specialty").values_list("specialty", flat=True).distinct()[:most]
    names: set[str] = set()
    for text in listed:
        names.update(split_list(text))
    return tuple(sorted(names))[:most]


def active_physicians() -> QuerySet[User]:
    """The physicians whose accounts are open, by name."""
    return User.objects.filter(role=UserRole.PHYSICIAN, is_active=True).order_by("username")


def reviewers() -> QuerySet[User]:
    """The active physicians to whom a case can be assigned, by name.

    None who was invited and has not accepted, even if the invitation has expired.
    """
    return active_physicians().filter(invited_at=None)
