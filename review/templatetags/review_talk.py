"""Template tags of the discussion and the guidelines."""

from functools import lru_cache
from typing import Any

from django import template
from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _

from review.common import sql
from review.discussion import guidelines
from review.discussion import notices as discussion_notices
from review.discussion import remarks as discussion_remarks
from review.labels import NAMELESS
from review.models import Assignment, Case, Notice, User
from review.rules.state_machine import State

register = template.Library()

AUTHORS: dict[str, Promise] = {"you": _("You"), "admin": _("Admin"), "physician": _("A physician"), **NAMELESS}


@register.filter
@lru_cache(maxsize=256)  # the same guideline stands on every page with a case
def markdown(text: str, top: int) -> SafeString:
    """Markdown as HTML, its highest heading <h`top`>; HTML in the source is shown as text, and no link runs a script."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + top - 1, 6)}"
    html: str = parser.renderer.render(tokens, parser.options, {})
    return mark_safe(html)  # noqa: S308  (markdown-it escapes all that is not Markdown)


@register.simple_tag
def built_in_guideline(benchmark: str, stage: str) -> str:
    """`{% built_in_guideline benchmark stage as text %}`: what the benchmark's folder says; "" where it says nothing."""
    return guidelines.built_in(benchmark, State(stage))


@register.simple_tag
def discussion(case: Case, user: User) -> list[dict[str, Any]]:
    """`{% discussion case user as remarks %}`: what `user` may read of it, each with the author's name for this reader."""
    if case.undiscussed:
        return []
    remarks = sql.if_any(discussion_remarks.remarks_shown_to(user, case))
    if not remarks:
        return []
    parts = Assignment.objects.filter(case=case, physician__isnull=False).values_list("physician", "role")
    names = {**dict(parts), user.pk: "you"}
    overseer = user.role == "admin"
    return [
        {
            "remark": remark,
            "author": str(remark.author) if overseer else AUTHORS[_part(remark.author, names)],
        }
        for remark in remarks
    ]


def _part(author: User, names: dict[int, str]) -> str:
    return names.get(author.pk) or ("admin" if author.role == "admin" else "physician")


@register.simple_tag
def notices(user: User) -> list[Notice]:
    """`{% notices user as waiting %}`: the newest that wait to be read; asked once a page, and only where there are some.

    A request's account knows already whether there are any (`AccountBackend`).
    """
    if not getattr(user, "has_notices", True):
        return []
    if not hasattr(user, "waiting_notices"):
        user.waiting_notices = discussion_notices.notices_for(user)  # type: ignore[attr-defined]
    found: list[Notice] = user.waiting_notices  # type: ignore[attr-defined]
    return found
