"""Counts on pages have thousands separators, and still choose between singular and plural."""

import pytest
from django.template import Context, Template
from django.utils import translation

pytestmark = pytest.mark.plain
SENTENCE = "{% load i18n counts %}"
SENTENCE += "{% blocktranslate count n=n|grouped %}{{ n }} call{% plural %}{{ n }} calls{% endblocktranslate %}"


@pytest.mark.parametrize(("n", "expected"), [(1, "1 call"), (2, "2 calls"), (1234567, "1,234,567 calls")])
def test_a_count_in_a_sentence_is_grouped_and_chooses_the_plural(n: int, expected: str) -> None:
    with translation.override("en"):
        assert Template(SENTENCE).render(Context({"n": n})) == expected


def test_a_value_that_is_not_a_number_stays_as_it_is() -> None:
    template = Template("{% load counts %}{{ a|grouped }} {{ b|grouped }} {{ c|grouped }}")
    assert template.render(Context({"a": "–", "b": 12345, "c": "1234"})) == "– 12,345 1234"
