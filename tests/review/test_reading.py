"""Texts from right to left keep their doses in order, and times are those of the reader."""

from datetime import UTC, datetime

import pytest
from django.template import Context, Template
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import override

from review.models import Case, User
from review.rules.blocks import Diff, Text, Turn
from review.templatetags.reading import doses, isolated, written_in
from review.templatetags.review_blocks import in_words
from tests.review.factories import FULL_FORM, claim, open_case

HEBREW = "תן 500 mg פעמיים ביום, לא 5-10 mg/kg."
ARABIC = "خذ <5 µg/kg يوميا، 12 يوما"


@pytest.mark.parametrize(
    ("language", "attributes"),
    [
        ("he", ' lang="he" dir="rtl"'),
        ("ar-EG", ' lang="ar-EG" dir="rtl"'),
        ("hi", ' lang="hi" dir="auto"'),
        ("", ' dir="auto"'),
        ('"><b', ' lang="&quot;&gt;&lt;b" dir="auto"'),
    ],
)
def test_a_text_has_the_direction_of_its_language(language: str, attributes: str) -> None:
    assert written_in(language) == f'{attributes} translate="no"'


def test_doses_are_isolated_among_words_from_right_to_left() -> None:
    assert doses(HEBREW) == 'תן <bdi dir="ltr">500 mg</bdi> פעמיים ביום, לא <bdi dir="ltr">5-10 mg/kg</bdi>.'
    assert doses(ARABIC) == 'خذ <bdi dir="ltr">&lt;5 µg/kg</bdi> يوميا، 12 يوما'
    assert doses("Take 500 mg <b>") == "Take 500 mg &lt;b&gt;"
    assert isolated("Metformin") == "Metformin"
    assert isolated("כאב <ראש>") == "<bdi>כאב &lt;ראש&gt;</bdi>"


@pytest.mark.django_db
def test_the_pages_of_a_hebrew_case_run_from_right_to_left(client: Client, ana: User, adela: User) -> None:
    before, after = Turn("user", "שלום"), Turn("user", HEBREW)
    open_case(form=FULL_FORM, blocks=(Diff("Talk", (before,), (after,)), Text("Bait", HEBREW, tone="question")))
    Case.objects.update(language="he", title="כאב ראש")
    client.force_login(ana)
    page = client.get(reverse("review:case", args=[claim(ana).pk])).content.decode()
    assert page.count('<bdi dir="ltr">500 mg</bdi>') >= 2  # as changes, and the question
    assert page.count('lang="he" dir="rtl"') >= 4
    client.force_login(adela)
    page = client.get(reverse("review:cases")).content.decode()
    assert "<bdi>כאב ראש</bdi>" in page


def test_times_are_those_of_the_reader() -> None:
    at = Template('{{ at|date:"H:i" }} · {{ at|moment }}')
    context = Context({"at": datetime(2026, 3, 1, 23, 30, tzinfo=UTC)})
    assert at.render(context) == "23:30 · 1 Mar 2026, 23:30 UTC"
    with timezone.override("Asia/Shanghai"):
        assert at.render(context) == "07:30 · 2 Mar 2026, 07:30 CST"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("zone", "hour"),
    [("Asia/Tokyo", "2026-03-02T08:30"), ("../etc/passwd", "2026-03-01T23:30"), ("", "2026-03-01T23:30")],
)
def test_a_page_shows_the_time_zone_of_its_cookie(client: Client, adela: User, zone: str, hour: str) -> None:
    case = open_case()
    Case.objects.filter(pk=case.pk).update(opened_at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC))
    client.force_login(adela)
    client.cookies["mhb_time_zone"] = zone
    assert hour in client.get(reverse("review:cases")).content.decode()
    shown = client.get(f"/api/v1/cases/{case.pk}/").json()
    assert "2026-03-01T23:30:00Z" in str(shown)


def test_places_that_a_model_names_are_in_the_readers_language() -> None:
    place = "turn 3 (user), turn 4 (assistant), final question"
    with override("zh-hans"):
        assert in_words(place) == "第 3 轮（用户）, 第 4 轮（助手）, 最后的问题"
        assert in_words("It ends in a final question") == "It ends in a final question"
    assert in_words(place) == place
