"""A page returned in place for a form equals the page at its own address; nothing posted shows."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from review.models import Assignment, User
from tests.review.assignments.test_first_look import SEALED, first_look_case
from tests.review.factories import approval, claim, full_approval, open_case, take_first_look
from tests.review.pages import Browse, Page, posted_fields, text_of

pytestmark = pytest.mark.django_db


def comparable_text(page: Page) -> str:
    """The text of a page without what differs between any two responses."""
    tokens = r'name="csrfmiddlewaretoken" value="\w+"|"X-CSRFToken": "\w+"|data-now="\d+"| data-shown-at="[^"]+"'
    clocks = r'data-seconds-left="\d+"|datetime="[^"]+"| data-arrived="[^"]*"'
    return re.sub(rf'{tokens}|{clocks}|(?s:<div class="messages".*?</div>)', "", text_of(page))


def post_in_place(client: Client, action: str, assignment: Assignment | None, **typed: object) -> Page:
    url = reverse(f"review:{action}", args=[assignment.pk] if assignment else [])
    token = {"token": str(assignment.token), "revision": "0"} if assignment else {}
    return client.post(f"{url}?here", {**token, **typed})


def address(assignment: Assignment) -> str:
    return reverse("review:case", args=[assignment.pk])


def test_next_and_reveal_return_the_page_of_the_case(ana: User, browse: Browse) -> None:
    first_look_case()
    client = browse(ana)
    page = post_in_place(client, "next", None)
    assignment = Assignment.objects.get(physician=ana)
    held_page = client.get(address(assignment))
    assert page.status_code == 200
    assert f'data-shown-at="{address(assignment)}"' in text_of(page)
    assert "data-shown-at" not in text_of(held_page)
    assert comparable_text(page) == comparable_text(held_page)
    assert not any(word in text_of(page) for word in SEALED)
    revealed = post_in_place(client, "reveal", assignment, **{"question.natural": "yes"})
    assert comparable_text(revealed) == comparable_text(client.get(address(assignment)))
    assert "Neurostatin?" in text_of(revealed)


def test_submit_returns_the_page_of_the_next_case_without_what_was_posted(ana: User, browse: Browse) -> None:
    for number in (1, 2):
        open_case(number)
    client = browse(ana)
    assignment = claim(ana)
    page = post_in_place(
        client, "submit", assignment, **posted_fields(approval(reason="Mine alone")), agreed="1", local="mhb-draft:1"
    )
    next_assignment = Assignment.objects.get(physician=ana, hold="held")
    assert page.status_code == 200
    assert f'data-shown-at="{address(next_assignment)}"' in text_of(page)
    assert 'data-arrived="mhb-draft:1"' in text_of(page)
    assert "Mine alone" not in text_of(page)
    undo = r'(?s:<form class="undo".*?</form>)'
    assert "Undo submission" in text_of(page)
    assert (
        comparable_text(client.get(address(next_assignment))).split() == re.sub(undo, "", comparable_text(page)).split()
    )


def test_submit_redirects_if_there_is_no_next_case(ana: User, browse: Browse) -> None:
    first_look_case()
    assignment = claim(ana)
    take_first_look(assignment)
    client = browse(ana)
    stopped = post_in_place(client, "submit", assignment, **posted_fields(full_approval()), local="mhb-draft:1")
    assert stopped.status_code == 302
    assert stopped["Location"].startswith(reverse("review:workbench"))
    assert "mhb-draft" in stopped["Location"]
    assert post_in_place(client, "next", None)["Location"] == reverse("review:workbench")
    assert client.get(reverse("review:next")).status_code == 405
