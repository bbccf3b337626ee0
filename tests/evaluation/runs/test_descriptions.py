"""Runs have titles and notes, and their list the columns that a reader has chosen."""

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.runs import queries
from review.models import User
from tests.engine import bare_release
from tests.evaluation.test_pages import judged_run, text_of
from tests.evaluation.toy import toy

__all__ = ["toy"]
pytestmark = pytest.mark.django_db


def test_a_run_is_found_by_the_title_that_somebody_gave_it(client: Client, adela: User) -> None:
    run = judged_run(bare_release(("dialogue", [["A1"]])), "one")
    client.force_login(adela)
    client.post(reverse("evaluation:run-describe", args=[run.pk]), {"title": "Second try", "note": "Without <b>."})
    page = text_of(client.get(reverse("evaluation:run", args=[run.pk])))
    assert "Second try" in page
    assert "Without &lt;b&gt;." in client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert [found.pk for found in queries.runs(text="second")] == [run.pk]
    assert not queries.runs(text="third").exists()
    refused = client.post(reverse("evaluation:run-describe", args=[run.pk]), {"title": "x" * 200}, follow=True)
    run.refresh_from_db()
    assert run.title == "Second try"
    said = [str(message) for message in refused.context["messages"]]
    assert any("Title: " in text and "120" in text for text in said)


def test_the_columns_of_the_list_are_chosen_and_kept(client: Client, adela: User) -> None:
    judged_run(bare_release(("dialogue", [["A1"]])), "one")
    client.force_login(adela)
    address = reverse("evaluation:runs")

    def heads() -> str:
        return text_of(client.get(address)).partition("<thead>")[2].partition("</thead>")[0]

    assert "Judge" in heads()
    assert "Note" not in heads()
    client.get(address, {"columns": ["note", "rate", "nonsense"]})
    assert "Note" in heads()
    assert "Judge" not in heads()
