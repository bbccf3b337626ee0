"""Labels for assignments and changes to accounts."""

from django import template
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from review.assignments.retraction import SET_ASIDE
from review.models import Assignment, Declined

register = template.Library()

_FIELDS: dict[str, Promise] = {
    "first_name": gettext_lazy("First name"),
    "last_name": gettext_lazy("Last name"),
    "email": gettext_lazy("E-mail"),
    "institution": gettext_lazy("Institution"),
    "hospital": gettext_lazy("Hospital"),
    "specialty": gettext_lazy("Specialties"),
    "languages": gettext_lazy("Languages"),
    "stages": gettext_lazy("Stages"),
    "senior": gettext_lazy("Senior physician"),
    "daily_cap": gettext_lazy("Daily case limit"),
}


@register.filter
def claim_reason(assignment: Assignment) -> str:
    """Why the holder was assigned the case, in one line in the reader's language."""
    if assignment.reason:
        return _(assignment.reason) % {"version": assignment.case.version}
    return ""


@register.filter
def declined(reason: str) -> str:
    """The label of a reason for declining, or of reviews that were set aside."""
    if reason == SET_ASIDE:
        return _("set aside")
    if reason in Declined.Reason.values:
        return str(Declined.Reason(reason).label)
    return reason


@register.filter
def account_field(name: str) -> Promise | str:
    """The label of a changed field of an account."""
    return _FIELDS.get(name, name)
