"""Template tags of the discussion and the guidelines."""

from functools import lru_cache
from typing import Any

from django import template
from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _

from review.discussion import guidelines
from review.discussion import remarks as discussion_remarks
from review.labels import ANONYMOUS_ROLES
from review.models import Assignment, Case, Remark, User
from review.rules.state_machine import State

register = template.Library()

AUTHORS: dict[str, Promise] = {"you": _("You"), "admin": _("Admin"), "physician": _("A physician"), **ANONYMOUS_ROLES}


@register.filter
@lru_cache(maxsize=256)  # every page with a case shows the same guideline
def markdown(text: str, top: int) -> SafeString:
    """Render Markdown with <h`top`> as the highest heading.

    HTML in the source is escaped, and links cannot run scripts.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + top - 1, 6)}"
        token.attrs.pop("style", None)  # the alignment of a column: no inline style is allowed
    html: str = parser.renderer.render(tokens, parser.options, {})
    return mark_safe(html)  # noqa: S308  (markdown-it escapes everything that is not Markdown)


@register.simple_tag
def built_in_guideline(benchmark: str, stage: str) -> str:
    """`{% built_in_guideline benchmark stage as text %}`: the benchmark's own text, or ""."""
    return guidelines.built_in(benchmark, State(stage))


@register.simple_tag
def discussion(case: Case, user: User) -> list[dict[str, Any]]:
    """`{% discussion case user as remarks %}`: the remarks that `user` may read, with authors.

    Only those who oversee cases see real names.
    """
    if not Remark.objects.filter(case=case.pk).exists():
        return []
    remarks = list(discussion_remarks.remarks_shown_to(user, case))
    roles = Assignment.objects.filter(case=case, physician__isnull=False).values_list("physician", "role")
    names = {**dict(roles), user.pk: "you"}
    if user.role == "admin":
        return [{"remark": remark, "author": str(remark.author)} for remark in remarks]
    shown = []
    for remark in remarks:
        others = "physician"
        if remark.author.role == "admin":
            others = "admin"
        shown.append({"remark": remark, "author": AUTHORS[names.get(remark.author_id, others)]})
    return shown
