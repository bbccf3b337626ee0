"""A page that is the answer to a form shows what its own address shows: nothing more, nothing of what was posted before."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from review.models import Assignment, User
from tests.review.assignments.test_first_look import SEALED, looked_at
from tests.review.factories import approval, claim, full_approval, open_case, take_first_look
from tests.review.pages import Browse, Page, posted_fields, text_of

pytestmark = pytest.mark.django_db


def shown(page: Page) -> str:
    """A page without what each answer has of its own."""
    changing = r'name="csrfmiddlewaretoken" value="\w+"|"X-CSRFToken": "\w+"|data-now="\d+"| data-shown-at="[^"]+"'
    clock = r'data-seconds-left="\d+"|datetime="[^"]+"| data-arrived="[^"]*"'
    return re.sub(rf'{changing}|{clock}|(?s:<div class="messages".*?</div>)', "", text_of(page))


def here(client: Client, what: str, held: Assignment | None, **typed: object) -> Page:
    at = reverse(f"review:{what}", args=[held.pk] if held else [])
    token = {"token": str(held.token), "revision": "0"} if held else {}
    return client.post(f"{at}?here", {**token, **typed})


def address(held: Assignment) -> str:
    return reverse("review:case", args=[held.pk])


def test_next_and_reveal(ana: User, browse: Browse) -> None:
    looked_at()
    client = browse(ana)
    page = here(client, "next", None)
    held = Assignment.objects.get(physician=ana)
    held_page = client.get(address(held))
    assert page.status_code == 200
    assert f'data-shown-at="{address(held)}"' in text_of(page)
    assert "data-shown-at" not in text_of(held_page)
    assert shown(page) == shown(held_page)
    assert not any(word in text_of(page) for word in SEALED)
    revealed = here(client, "reveal", held, **{"question.natural": "yes"})
    assert shown(revealed) == shown(client.get(address(held)))
    assert "Neurostatin?" in text_of(revealed)


def test_submit_shows_the_next_case_as_if_nothing_had_been_posted(ana: User, browse: Browse) -> None:
    for number in (1, 2):
        open_case(number)
    client = browse(ana)
    held = claim(ana)
    page = here(client, "submit", held, **posted_fields(approval(reason="Mine alone")), agreed="1", local="mhb-draft:1")
    later = Assignment.objects.get(physician=ana, hold="held")
    assert page.status_code == 200
    assert f'data-shown-at="{address(later)}"' in text_of(page)
    assert 'data-arrived="mhb-draft:1"' in text_of(page)
    assert "Mine alone" not in text_of(page)
    assert shown(page) == shown(client.get(address(later)))


def test_where_nothing_comes_the_redirect_stays(ana: User, browse: Browse) -> None:
    looked_at()
    held = claim(ana)
    take_first_look(held)
    client = browse(ana)
    stopped = here(client, "submit", held, **posted_fields(full_approval()), local="mhb-draft:1")
    assert stopped.status_code == 302
    assert stopped["Location"].startswith(reverse("review:workbench"))
    assert "mhb-draft" in stopped["Location"]
    assert here(client, "next", None)["Location"] == reverse("review:workbench")
    assert client.get(reverse("review:next")).status_code == 405
