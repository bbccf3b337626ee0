"""Template tags of the discussion and the guidelines."""

from functools import lru_cache

from django import template
from django.utils.safestring import SafeString, mark_safe

from review.discussion import guidelines
from review.rules.state_machine import State

register = template.Library()


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
