"""`{% panels place object %}`: what apps above show at this place of a page."""

from django import template
from django.template.context import Context
from django.utils.safestring import SafeString, mark_safe

from review.common.panels import panels_of

register = template.Library()


@register.simple_tag(takes_context=True)
def panels(context: Context, place: str, shown: object) -> SafeString:
    """The panels registered for a place, rendered one after another in the page's own context."""
    drawn = []
    for name, values in panels_of(place, shown):
        with context.push(**values):
            drawn.append(template.loader.get_template(name).template.render(context))  # type: ignore[attr-defined]
    return mark_safe("".join(drawn))  # noqa: S308  # each is a rendered template, escaped by itself
