"""Agreement by pairs of physicians: each number leads to the cases that it counts."""

import html
import re

import pytest
from django.urls import reverse

from review.models import User
from review.quality.pairs import cases_of_pair, physician_pairs
from tests.review.factories import account, approval, claim_and_submit, open_case, rejection
from tests.review.pages import Browse, text_of

pytestmark = pytest.mark.django_db


def _judged(number: int, first: User, second: User, *, alike: bool) -> int:
    case = open_case(number)
    claim_and_submit(first, approval())
    own = approval() if alike else rejection()
    claim_and_submit(second, own, own)
    return case.pk


@pytest.mark.both
def test_each_number_of_a_pair_leads_to_its_cases(browse: Browse, adela: User, ana: User) -> None:
    bo = account("bo")
    same = _judged(1, ana, bo, alike=True)
    other = _judged(2, ana, bo, alike=False)
    turned = _judged(3, bo, ana, alike=True)
    open_case(4)
    pairs = {(pair.first, pair.second): (pair.cases, pair.agreed) for pair in physician_pairs()}
    assert pairs == {(ana, bo): (2, 1), (bo, ana): (1, 1)}, "who reviews first may matter"
    assert set(cases_of_pair(ana.pk, bo.pk, differed=False).values_list("pk", flat=True)) == {same, other}
    assert turned not in cases_of_pair(ana.pk, bo.pk, differed=False).values_list("pk", flat=True)
    page = text_of(browse(adela).get(reverse("review:agreement"), {"pairs": ""}))
    [address] = set(re.findall(r'href="(\?physicians=[^"#]*differed=1)#pair-cases"', html.unescape(page)))
    shown = text_of(browse(adela).get(reverse("review:agreement") + address))
    listed = shown.partition('id="pair-cases"')[2].partition("</ul>")[0]
    assert re.findall(r"/review/cases/(\d+)/", listed) == [str(other)]
    assert physician_pairs("no-such-benchmark") == []
