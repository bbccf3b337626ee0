"""Figures over all cases and reviews: counted anew on a small site, by workers on a large one."""

from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import formats, timezone

from review.cases import queries
from review.cases.attention import attention
from review.common import figures
from review.models import User
from review.quality import pairs, reliability
from tests.review.factories import approval, case_in_secondary, claim_and_submit, open_case

pytestmark = pytest.mark.django_db


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(figures, "LARGE", 1)


def number_of_cases() -> int:
    return sum(queries.funnel("").counts.values())


def test_a_small_site_counts_anew() -> None:
    open_case(1)
    assert number_of_cases() == 1
    open_case(2)
    assert number_of_cases() == 2
    assert not figures.are_due()


@pytest.mark.usefixtures("large")
def test_a_large_site_shows_what_workers_have_counted_since() -> None:
    open_case(1)
    assert number_of_cases() == 1
    open_case(2)
    assert number_of_cases() == 1
    assert figures.count_figures() == 1, "only what a page has asked for"
    assert number_of_cases() == 2
    assert figures.are_due()
    assert not figures.are_due(), "somebody else counts"


@pytest.mark.usefixtures("large")
def test_another_benchmark_is_another_figure() -> None:
    open_case(1)
    assert number_of_cases() == 1
    assert sum(queries.funnel("no-such-benchmark").counts.values()) == 0


@pytest.mark.usefixtures("large")
def test_workers_count_all_that_the_pages_show_first(client: Client, adela: User, ana: User, bo: User) -> None:
    case_in_secondary(ana)
    client.force_login(adela)
    shown = [client.get(reverse(name)).content.decode() for name in ("review:overview", "review:agreement")]
    before = (number_of_cases(), attention(), pairs.physician_pairs(), reliability.agreement_table())
    claim_and_submit(bo, approval())
    assert (number_of_cases(), pairs.physician_pairs(), reliability.agreement_table()) == (before[0], *before[2:])
    figures.count_figures()
    assert len(pairs.physician_pairs()) == 1
    assert reliability.agreement_table() != before[3]
    again = [client.get(reverse(name)).content.decode() for name in ("review:overview", "review:agreement")]
    assert all(page != earlier for page, earlier in zip(again, shown, strict=True))
    assert all("counted again every minute" in page for page in again)


def test_a_page_says_when_its_oldest_figure_was_counted(
    client: Client, adela: User, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    open_case(1)
    client.force_login(adela)
    assert "counted again" not in client.get(reverse("review:overview")).content.decode(), "they are of now"
    cache.clear()
    monkeypatch.setattr(figures, "LARGE", 1)
    two_minutes_ago = timezone.now() - timedelta(minutes=2)
    with mock.patch("django.utils.timezone.now", return_value=two_minutes_ago):
        number_of_cases()
    settings.MHB_TIME_ZONE = "UTC"
    page = client.get(reverse("review:overview")).content.decode()
    assert f"Counted at {formats.time_format(two_minutes_ago, 'TIME_FORMAT')}; counted again every minute." in page
