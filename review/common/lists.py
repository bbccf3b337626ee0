"""The lists of every app: filters and order from the URL, and actions on many rows at once."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from review.common.decorators import refusal_text, signed_in_account
from review.common.paging import offset_page
from review.errors import ReviewError
from review.models import User
from review.rules.permissions import Can, allowed
from review.rules.text import whole_number

M = TypeVar("M", bound=Model)
MAX_ROWS = 100  # rows that one action may change
ALL = ("", gettext_lazy("all"))


def any_of(label: Any, choices: Callable[[], Iterable[Any]]) -> forms.ChoiceField:
    """A filter by one of the choices that there are when the list is shown."""
    return forms.ChoiceField(label=label, required=False, choices=lambda: [ALL, *choices()])


class Filters(forms.Form):
    """The filters of a list, from the URL; invalid values are ignored. Subclasses add fields.

    `view` is the reader's name for the filtered list, so that bookmarking the URL saves a named
    view.
    """

    view = forms.CharField(label=gettext_lazy("Name of this view"), required=False, max_length=80)

    def __init__(self, data: Mapping[str, Any], **options: Any) -> None:
        super().__init__(data, auto_id="filter-%s", **options)
        self.fields["view"] = self.fields.pop("view")  # move it to the end
        self.is_valid()

    @property
    def active(self) -> dict[str, Any]:
        """The values of the filters that are set and valid, by name."""
        return {name: value for name, value in self.cleaned_data.items() if value and name != "view"}

    @property
    def name(self) -> str:
        return str(self.cleaned_data.get("view", ""))


def list_context(
    request: HttpRequest,
    filters: Filters,
    rows: QuerySet[M],
    sorts: Sequence[str],
    actions: "Sequence[BulkAction]" = (),
) -> dict[str, Any]:
    """Context of the list templates (`components/list_*.html`), in two queries.

    After a post that `apply_bulk_action` refused, it restores the selection and the entered values.
    """
    sort, status = request.GET.get("sort", ""), 200
    if sort.removeprefix("-") in sorts:
        rows = rows.order_by(sort, "-pk")
    if request.method == "POST":
        status = 422
    bound_actions = []
    if not allowed(request.user, Can.AUDIT):  # auditors read only
        bound_actions = [(action, action.bound_form(request.POST)) for action in actions]
    return {
        "filters": filters,
        "page": offset_page(rows, request),
        "total": rows.order_by().count(),
        "sort": sort,
        "actions": bound_actions,
        "selected_keys": _selected_keys(request),
        "status": status,
        "most": MAX_ROWS,
    }


@dataclass(frozen=True, slots=True)
class BulkAction:
    """A bulk action: `act(key, actor, form data)` per selected row, each in its own transaction.

    `refusals`: the errors by which `act` refuses a single row; the other rows are still changed.
    """

    name: str
    label: Promise
    act: Callable[[int, User, Mapping[str, Any]], object]
    form: type[forms.Form] = forms.Form
    refusals: tuple[type[Exception], ...] = (ReviewError,)

    def bound_form(self, posted: Mapping[str, Any]) -> forms.Form:
        """This action's form with the posted data, which is checked only if this action was posted.

        Fields have no `required` attribute, which would keep the browser from posting another
        action.
        """
        if posted.get("action") == self.name:
            return self.form(posted, prefix=self.name, use_required_attribute=False)
        initial = {}
        for name in self.form.base_fields:
            if (value := posted.get(f"{self.name}-{name}")) is not None:
                initial[name] = value
        return self.form(initial=initial, prefix=self.name, use_required_attribute=False)


def _selected_keys(request: HttpRequest) -> set[int]:
    numbers = map(whole_number, request.POST.getlist("rows"))
    return {number for number in numbers if number is not None}


def apply_bulk_action(
    request: HttpRequest, actions: Sequence[BulkAction], rows: QuerySet[M], label: Callable[[M], object] = str
) -> HttpResponseRedirect | None:
    """Apply the posted `action` to the selected `rows`, report, and redirect to the list.

    Returns None if nothing was posted or changed: show the list again, with selection and input.
    """
    if request.method != "POST":
        return None
    action = next((candidate for candidate in actions if candidate.name == request.POST.get("action")), None)
    keys = _selected_keys(request)
    if action:
        form = action.bound_form(request.POST)
    else:
        form = forms.Form()
    error_text = ""
    if action is None or not keys:
        error_text = _("Choose at least one row and an action.")
    elif len(keys) > MAX_ROWS:
        error_text = _("Choose at most %(most)s rows at a time. Nothing was changed.") % {"most": MAX_ROWS}
    elif not form.is_valid():
        error_text = _("Nothing was changed. %(why)s") % {"why": refusal_text(form)}
    if error_text or action is None:
        messages.error(request, error_text)
        return None
    done, refused = 0, defaultdict(list)
    for row in rows.filter(pk__in=keys).order_by("pk"):
        try:
            action.act(row.pk, signed_in_account(request), form.cleaned_data)
        except action.refusals as error:
            refused[getattr(error, "detail", "") or getattr(error, "message", str(error))].append(str(label(row)))
        else:
            done += 1
    if done:
        text = ngettext("%(action)s: done for %(n)s row.", "%(action)s: done for %(n)s rows.", done)
        messages.success(request, text % {"action": action.label, "n": done})
    for reason, names in refused.items():
        messages.warning(
            request,
            _("%(why)s Not changed (%(n)s): %(names)s") % {"n": len(names), "names": "; ".join(names), "why": reason},
        )
    if refused and not done:
        return None
    return HttpResponseRedirect(request.get_full_path())
