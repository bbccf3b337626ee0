"""The search over the whole site: cases, samples, people, runs, as far as readers may see them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from evaluation.runs import queries as runs_queries
from generation.models import ReleasedSample
from generation.samples import queries as samples_queries
from review.cases import queries as cases_queries
from review.errors import NotAllowed
from review.labels import CASE_STATES
from review.people import queries as people_queries
from review.rules.permissions import Can, may_read
from review.rules.state_machine import State
from review.rules.text import whole_number

SHOWN = 8  # of each kind; its list has all
MAX_LETTERS = 100


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A match: its title, its address, and what tells it from others."""

    title: str
    address: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class SearchGroup:
    """The first matches of a kind; `more`: the address of the list of all, if there are more."""

    label: str
    hits: list[SearchHit]
    more: str


@require_safe
@login_required
def search(request: HttpRequest) -> HttpResponse:
    """What matches `?q=`. Physicians have none: it would show cases that they judge blind."""
    if not may_search(request.user):
        raise NotAllowed
    text = request.GET.get("q", "")[:MAX_LETTERS].strip()
    groups = []
    if text:
        groups = find(request.user, text)
    return render(request, "site/search.html", {"text": text, "found": groups})


def may_search(reader: object) -> bool:
    """Whether there is anything that `reader` may search."""
    return any(may_read(reader, kind.can) for kind in KINDS)


def find(reader: Any, text: str) -> list[SearchGroup]:
    """The matches of each kind that `reader` may see, in the order of the site's navigation."""
    groups = []
    for kind in KINDS:
        if may_read(reader, kind.can):
            hits = list(kind.hits(reader, text))
            more = ""
            if len(hits) > SHOWN and kind.page:
                more = f"{reverse(kind.page)}?{urlencode({'text': text})}"
            groups.append(SearchGroup(str(kind.label), hits[:SHOWN], more))
    return [group for group in groups if group.hits]


def _cases(_reader: object, text: str) -> Iterable[SearchHit]:
    numbered = cases_queries.cases().filter(pk=whole_number(text) or 0)
    rows = cases_queries.cases(text=text).exclude(pk__in=numbered)
    for case in [*numbered.defer("spec"), *rows.defer("spec")[: SHOWN + 1]]:
        note = f"{case.lineage} v{case.version} · {CASE_STATES[State(case.state)]}"
        yield SearchHit(case.title, reverse("review:history", args=[case.pk]), note)


def _samples(_reader: object, text: str) -> Iterable[SearchHit]:
    for sample in samples_queries.samples(text=text)[: SHOWN + 1]:
        yield SearchHit(sample.key, reverse("generation:sample", args=[sample.pk]), sample.record.title)


def _released(reader: object, text: str) -> Iterable[SearchHit]:
    rows = samples_queries.visible_to(reader, ReleasedSample.objects.filter(key__icontains=text))
    for sample in rows.select_related("release").defer("exported").order_by("-release", "position")[: SHOWN + 1]:
        release = sample.release
        address = reverse("generation:release-sample", args=[release.name, release.version, sample.key])
        yield SearchHit(sample.key, address, str(release))


def _people(_reader: object, text: str) -> Iterable[SearchHit]:
    for person in people_queries.people(text=text)[: SHOWN + 1]:
        yield SearchHit(str(person), reverse("review:person", args=[person.pk]), person.username)


def _runs(_reader: object, text: str) -> Iterable[SearchHit]:
    numbered = runs_queries.runs().filter(pk=whole_number(text) or 0)
    rows = runs_queries.runs(text=text).exclude(pk__in=numbered).order_by("-pk")
    for run in [*numbered, *rows[: SHOWN + 1]]:
        title = _("Run %(n)s on %(release)s") % {"n": run.pk, "release": run.release}
        yield SearchHit(title, reverse("evaluation:run", args=[run.pk]), str(run.get_status_display()))


@dataclass(frozen=True, slots=True)
class SearchKind:
    """What is searched: who may read it, how, and the page that lists it by `?text=`."""

    label: Any
    can: Can
    hits: Callable[[Any, str], Iterable[SearchHit]]
    page: str = ""


KINDS = (
    SearchKind(gettext_lazy("Cases"), Can.OVERSEE, _cases, "review:cases"),
    SearchKind(gettext_lazy("Samples"), Can.PRODUCE, _samples, "generation:samples"),
    SearchKind(gettext_lazy("Released samples"), Can.READ_RESULTS, _released),
    SearchKind(gettext_lazy("Physicians"), Can.OVERSEE, _people, "review:people"),
    SearchKind(gettext_lazy("Runs"), Can.READ_RESULTS, _runs, "evaluation:runs"),
)
