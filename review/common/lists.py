"""Lists: filters and order from the address, and actions on many rows at once. One mechanism for the lists of every app."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from review.common.decorators import signed_in_account
from review.common.paging import page_of
from review.errors import ReviewError
from review.labels import labelled
from review.models import User

M = TypeVar("M", bound=Model)
MOST = 100  # rows of one action
ALL = ("", gettext_lazy("all"))


class Filters(forms.Form):
    """The filters of a list, from the address; what is not understood is left out. A subclass has a field for each.

    `view` is the reader's name for what the address asks for: to keep the address is to keep the view.
    """

    view = forms.CharField(label=gettext_lazy("Name of this view"), required=False, max_length=80)

    def __init__(self, data: Mapping[str, Any], **options: Any) -> None:
        super().__init__(data, auto_id="filter-%s", **options)
        self.fields["view"] = self.fields.pop("view")  # the last one
        self.is_valid()

    @property
    def wanted(self) -> dict[str, Any]:
        """The filters that were understood, by their names."""
        return {name: value for name, value in self.cleaned_data.items() if value and name != "view"}

    @property
    def name(self) -> str:
        return str(self.cleaned_data.get("view", ""))


def listing(
    request: HttpRequest, filters: Filters, rows: QuerySet[M], sorts: Sequence[str], actions: "Sequence[Action]" = ()
) -> dict[str, Any]:
    """What the templates of a list need (`components/list_*.html`): two queries however many rows there are.

    After a post that `act_on_chosen` refused, what was selected and typed is there again.
    """
    sort = request.GET.get("sort", "")
    if sort.removeprefix("-") in sorts:
        rows = rows.order_by(sort, "-pk")
    return {
        "filters": filters,
        "page": page_of(rows, request),
        "total": rows.order_by().count(),
        "sort": sort,
        "actions": [(action, action.filled(request.POST)) for action in actions],
        "chosen": _chosen(request),
        "status": 422 if request.method == "POST" else 200,
        "most": MOST,
    }


@dataclass(frozen=True, slots=True)
class Action:
    """Something done to each chosen row by its own transaction: `act(key, actor, what the form says)`.

    `refusals`: the errors by which `act` refuses a row; the others are done all the same.
    """

    name: str
    label: Promise
    act: Callable[[int, User, Mapping[str, Any]], object]
    form: type[forms.Form] = forms.Form
    refusals: tuple[type[Exception], ...] = (ReviewError,)

    def filled(self, posted: Mapping[str, Any]) -> forms.Form:
        """Its form, with what was posted for this action. What it requires does not keep another from being posted."""
        said = posted if posted.get("action") == self.name else None
        return self.form(said, prefix=self.name, use_required_attribute=False)


def _chosen(request: HttpRequest) -> set[int]:
    return {int(key) for key in request.POST.getlist("rows") if key.isascii() and key.isdigit() and len(key) < 19}


def act_on_chosen(
    request: HttpRequest, actions: Sequence[Action], rows: QuerySet[M], label: Callable[[M], object] = str
) -> HttpResponseRedirect | None:
    """Do what was posted (`action`, `rows`) to the chosen ones of `rows`, say what came of it, and lead back to the list.

    None where nothing was posted or nothing done: the list is to be shown, with what was selected and typed.
    """
    if request.method != "POST":
        return None
    action = next((one for one in actions if one.name == request.POST.get("action")), None)
    keys = _chosen(request)
    form = action.filled(request.POST) if action else forms.Form()
    fault = ""
    if action is None or not keys:
        fault = _("Choose at least one row and an action.")
    elif len(keys) > MOST:
        fault = _("Choose at most %(most)s rows at a time. Nothing was changed.") % {"most": MOST}
    elif not form.is_valid():
        faults = [labelled(form.fields[name].label, " ".join(map(str, said))) for name, said in form.errors.items()]
        fault = _("Nothing was changed. %(why)s") % {"why": " ".join(faults)}
    if fault or action is None:
        messages.error(request, fault)
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
        told = ngettext("%(action)s: done for %(n)s row.", "%(action)s: done for %(n)s rows.", done)
        messages.success(request, told % {"action": action.label, "n": done})
    for why, names in refused.items():
        messages.warning(
            request,
            _("%(why)s Not changed (%(n)s): %(names)s") % {"n": len(names), "names": "; ".join(names), "why": why},
        )
    return HttpResponseRedirect(request.get_full_path())
