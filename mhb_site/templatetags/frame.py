"""The frame of every page: the navigation rail, the current place, and labels of states."""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django import template
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from review.labels import CASE_STATES, USER_ROLES, benchmark_explanation, benchmark_label, with_label
from review.rules.permissions import Can, may_read

register = template.Library()


@dataclass(frozen=True, slots=True)
class NavigationPlace:
    """An entry of the rail: URL name, label, the key after `g`, and the right it needs."""

    name: str
    label: Promise
    key: str
    can: Can


@dataclass(frozen=True, slots=True, eq=False)
class NavigationGroup:
    """Related places; the label is empty if it would only repeat theirs."""

    label: Promise | str
    places: tuple[NavigationPlace, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A place for one reader. Compared by identity, as parts of pages are cached by it.

    `current` is the value of aria-current: 'page', 'true' (below it) or ''.
    """

    href: str
    label: Promise
    key: str
    current: str


RAIL = (
    NavigationGroup(
        "",
        (
            NavigationPlace("review:workbench", _("Workbench"), "w", Can.REVIEW),
            NavigationPlace("review:mine", _("My reviews"), "m", Can.REVIEW),
            NavigationPlace("review:guidelines", _("Guidelines"), "l", Can.REVIEW),
            NavigationPlace("review:overview", _("Overview"), "o", Can.OVERSEE),
        ),
    ),
    NavigationGroup(
        _("Generation"),
        (
            NavigationPlace("generation:sources", _("Sources"), "s", Can.PRODUCE),
            NavigationPlace("generation:batches", _("Batches"), "b", Can.PRODUCE),
        ),
    ),
    NavigationGroup(
        _("Review"),
        (
            NavigationPlace("review:cases", _("Cases"), "c", Can.OVERSEE),
            NavigationPlace("review:forms", _("Review forms"), "f", Can.OVERSEE),
            NavigationPlace("review:people", _("Physicians"), "p", Can.OVERSEE),
            NavigationPlace("review:audit", _("Audit"), "u", Can.OVERSEE),
            NavigationPlace("review:agreement", _("Agreement"), "a", Can.OVERSEE),
        ),
    ),
    NavigationGroup(
        _("Evaluation"),
        (
            NavigationPlace("generation:releases", _("Releases"), "r", Can.READ_RESULTS),
            NavigationPlace("evaluation:runs", _("Runs"), "e", Can.READ_RESULTS),
        ),
    ),
    NavigationGroup(
        _("Connections"),
        (
            NavigationPlace("generation:endpoints", _("Endpoints"), "n", Can.CONNECT),
            NavigationPlace("generation:prompts", _("Prompts"), "t", Can.READ_RESULTS),
            NavigationPlace("evaluation:playground", _("Playground"), "y", Can.MEASURE),
            NavigationPlace("api-docs", _("API"), "i", Can.READ_RESULTS),
            NavigationPlace("system", _("System"), "x", Can.OVERSEE),
        ),
    ),
)

STATES: dict[str, Promise] = {
    **CASE_STATES,
    "queued": pgettext_lazy("state of work", "queued"),
    "running": pgettext_lazy("state of work", "running"),
    "paused": pgettext_lazy("state of work", "paused"),
    "finished": pgettext_lazy("state of work", "finished"),
    "failed": pgettext_lazy("state of work", "failed"),
    "cancelled": pgettext_lazy("state of work", "cancelled"),
}


Rail = tuple[tuple[NavigationGroup, tuple[Link, ...]], ...]


def groups_for(user: object, path: str) -> Rail:
    """The rail of `user` on the page at `path`, without places whose page is not installed."""
    rights = frozenset(can for can in Can if may_read(user, can))
    hrefs = _hrefs(rights, get_script_prefix())
    # /cases/ and /cases/closed/ may both be places: the longest prefix of the path is the current
    # one.
    here = max((href for href in hrefs.values() if path.startswith(href)), key=len, default="")
    return _rail(rights, get_script_prefix(), here, is_page=path == here)


@lru_cache(maxsize=64)
def _hrefs(rights: frozenset[Can], _prefix: str) -> dict[str, str]:
    """The addresses of the places that somebody with these rights may open, by name."""
    hrefs = {}
    for group in RAIL:
        for place in group.places:
            if place.can in rights:
                with suppress(NoReverseMatch):
                    hrefs[place.name] = reverse(place.name)
    return hrefs


@lru_cache(maxsize=512)
def _rail(rights: frozenset[Can], prefix: str, here: str, *, is_page: bool) -> Rail:
    hrefs = _hrefs(rights, prefix)
    rail = []
    for group in RAIL:
        links = []
        for place in group.places:
            if place.name not in hrefs:
                continue
            href = hrefs[place.name]
            current = ""
            if href == here:
                current = "true"
                if is_page:
                    current = "page"
            links.append(Link(href, place.label, place.key, current))
        if links:
            rail.append((group, tuple(links)))
    return tuple(rail)


@register.simple_tag(takes_context=True)
def rail(context: dict[str, Any]) -> Rail:
    """`{% rail as groups %}`: the reader's rail, as pairs of a group and its links."""
    request = context.get("request")
    if request:
        return groups_for(getattr(request, "user", None), request.path)
    return ()


@register.simple_tag
def colon() -> str:
    """The colon after a label, in the reader's language: full-width in Chinese, with no space."""
    return with_label("", "")


@register.filter
def as_json(value: object) -> str:
    """Encode a value as JSON, for an attribute that a script reads."""
    return json.dumps(value)


@register.filter
def state_label(state: object) -> object:
    """The label of a state in the reader's language; an unknown state is returned unchanged."""
    return STATES.get(str(state), state)


register.filter(benchmark_label)
register.filter(benchmark_explanation)


@register.filter
def role_label(role: object) -> object:
    """The label of an account's role in the reader's language."""
    return USER_ROLES.get(str(role), role)
