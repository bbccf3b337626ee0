"""Prepared templates render like Django's own, in every language, and keep no user's data."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from django.template import Context, Engine
from django.utils import timezone, translation
from django.utils.safestring import mark_safe

from mhb_site.web.templates import Constant, prepare

PARTS = {
    "row.html": "[{{ item.name }}{% if mark %}!{% endif %}{% include 'leaf.html' with word=item.name only %}]",
    "leaf.html": "<i>{{ word|upper }}{{ item }}</i>",
    "frame.html": "<title>{% block title %}{% translate 'MHB' %}{% endblock %}</title>{% block body %}-{% endblock %}",
}
PAGES = [
    "{% translate 'Save' %}{% url 'review:workbench' %}{% static 'mhb/js/app.js' %}{% translate 'Submit' %}",
    "{% translate 'Note' as label %}{{ label }}{% blocktranslate trimmed %}  Save\n draft {% endblocktranslate %}",
    "{% blocktranslate with n=things.0.name %}Rubric {{ n }}{% endblocktranslate %}{% url 'review:case' number %}",
    "{% for item in things %}{% include 'row.html' with mark=forloop.first %}{{ forloop.counter }}{% empty %}none{% endfor %}",
    "{% url 'review:person' number %}{% url 'review:mine-detail' things|length %}{% url 'image' plain|slugify %}",
    "{% for item in nothing %}{% empty %}none{% endfor %}{{ nothing }}{{ nothing.at.all|default:'-' }}{{ none.thing }}",
    "{% if nothing %}a{% elif things.0.name == 'Ana & Bo' and not none.x %}{% translate 'Save' %}{% else %}c{% endif %}",
    "{{ plain }}{{ safe }}{{ number }}{{ share }}{{ yes }}{{ none }}{{ at }}{{ table.key }}{{ table.items|length }}",
    "{{ things.0.shout }}{{ things.1.name|lower }}{{ made }}{{ plain.upper }}{{ table.none }}{{ things.9 }}",
    "{% autoescape off %}{{ plain }}{% endautoescape %}{% with x=things.0 %}{{ x.name }}{% endwith %}{{ plain|safe }}",
    "{% extends 'frame.html' %}{% block title %}{{ plain }} · {{ block.super }}{% endblock %}"
    "{% block body %}{% translate 'Save' %}{% endblock %}",
    "{% spaceless %}<b> {% translate 'Save' %} </b> <b>{{ number|add:1 }}</b>{% endspaceless %}",
]


@dataclass
class Thing:
    name: str
    called: list[str] = field(default_factory=list)

    def shout(self) -> str:
        self.called.append("once")
        return f"<{self.name}>"


def values() -> dict[str, Any]:
    return {
        "things": [Thing("Ana & Bo"), Thing("Cy")],
        "plain": "<b>'1' & \"2\"",
        "safe": mark_safe("<b>"),
        "number": 12345,
        "share": 0.25,
        "yes": True,
        "none": None,
        "at": timezone.now().replace(2026, 1, 2, 3, 4, 5, 6),
        "table": {"key": "<value>", "items": [1, 2, 3], "none": None},
        "made": lambda: "<made>",
    }


def engine(prepared: bool) -> Engine:
    libraries = {"i18n": "django.templatetags.i18n", "static": "django.templatetags.static"}
    builtins = [*Engine.default_builtins, *libraries.values()]
    loaders: list[Any] = ["mhb_site.web.templates.Loader" if prepared else "django.template.loaders.cached.Loader"]
    return Engine(loaders=[(*loaders, [("django.template.loaders.locmem.Loader", PARTS)])], builtins=builtins)


@pytest.mark.parametrize("source", PAGES)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_prepared_templates_render_the_same(source: str, language: str) -> None:
    plain, prepared = engine(False).from_string(source), engine(True).from_string(source)
    prepare(prepared.nodelist)
    with translation.override("de"):
        prepared.render(Context(values()))  # strings prepared in one language do not appear in another
    with translation.override(language):
        expected = plain.render(Context(values()))
        for _ in range(2):
            assert prepared.render(Context(values())) == expected


def test_prepared_templates_keep_no_values() -> None:
    template = engine(True).from_string("{% translate 'Save' %}{{ name }}{% include 'leaf.html' with word=name %}")
    prepare(template.nodelist)
    for name in ("ana", "ben"):
        assert template.render(Context({"name": name})) == f"Save{name}<i>{name.upper()}</i>"
    assert [type(node) is Constant for node in template.nodelist] == [True, False, False]


def test_a_variable_is_called_once() -> None:
    template = engine(True).from_string("{{ thing.shout }}")
    prepare(template.nodelist)
    thing = Thing("x")
    template.render(Context({"thing": thing}))
    assert thing.called == ["once"]
