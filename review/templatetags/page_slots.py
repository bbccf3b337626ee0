"""`{% slot place object %}`: the templates that apps of higher layers registered for a place."""

from django import template
from django.template.context import Context
from django.utils.safestring import SafeString, mark_safe

from review.common.page_slots import templates_in

register = template.Library()


@register.simple_tag(takes_context=True)
def slot(context: Context, place: str, page_object: object) -> SafeString:
    """The templates registered for a place, each rendered in the page's context plus its own."""
    rendered = []
    for name, values in templates_in(place, page_object):
        with context.push(**values):
            rendered.append(template.loader.get_template(name).template.render(context))  # type: ignore[attr-defined]
    return mark_safe("".join(rendered))  # noqa: S308  # rendered templates are already escaped
