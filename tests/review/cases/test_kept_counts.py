"""Pages of many cases count them once a minute."""

import pytest
from django.core.cache import cache

from review.cases import queries
from tests.review.factories import open_case


@pytest.mark.django_db
def test_only_many_cases_are_shown_as_counted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    open_case(1)
    assert sum(queries.kept_funnel().counts.values()) == 1
    open_case(2)
    assert sum(queries.kept_funnel().counts.values()) == 2, "few are counted anew"
    monkeypatch.setattr(queries, "MANY_CASES", 2)
    kept = queries.kept_funnel()
    open_case(3)
    assert queries.kept_funnel() == kept
    cache.clear()
    assert sum(queries.kept_funnel().counts.values()) == 3
