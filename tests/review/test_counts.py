"""Counts on pages have thousands separators, and still choose between singular and plural."""

import pytest
from django.template import Context, Template
from django.utils import translation

pytestmark = pytest.mark.plain
SAID = "{% load i18n counts %}"
SAID += "{% blocktranslate count n=n|grouped %}{{ n }} call{% plural %}{{ n }} calls{% endblocktranslate %}"


@pytest.mark.parametrize(("n", "said"), [(1, "1 call"), (2, "2 calls"), (1234567, "1,234,567 calls")])
def test_a_count_in_a_sentence(n: int, said: str) -> None:
    with translation.override("en"):
        assert Template(SAID).render(Context({"n": n})) == said


def test_what_is_no_count_stays() -> None:
    shown = Template("{% load counts %}{{ a|grouped }} {{ b|grouped }} {{ c|grouped }}")
    assert shown.render(Context({"a": "–", "b": 12345, "c": "1234"})) == "– 12,345 1234"
