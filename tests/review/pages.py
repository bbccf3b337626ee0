"""Reading and posting the pages of review through Django's client."""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from django.test import Client
from django.urls import reverse

from review.models import Assignment, User
from review.rules.questions import Answers

Browse = Callable[[User], Client]
Page = Any  # a response of the test client: an HttpResponse with additional attributes
HTMX = {"HX-Request": "true"}


def posted_fields(answers: Answers) -> dict[str, Any]:
    """The form data that a browser would post for `answers`."""
    typed: dict[str, Any] = {
        name: getattr(answers, name) for name in ("verdict", "reason", "reason_code", "dissent_code", "change_reason")
    }
    for key, answer in answers.questions.items():
        typed |= {f"question.{key}": answer.value, f"question.{key}.note": answer.note}
    for key, finding in answers.rubrics.items():
        parts = {"wording": finding.wording, "note": finding.note, "severity": finding.severity}
        typed |= {f"rubric.{key}": finding.value, **{f"rubric.{key}.{part}": value for part, value in parts.items()}}
    for number, citation in enumerate(answers.citations, 1):
        for part in ("kind", "reference", "section", "passage", "read_on"):
            typed[f"citation.{number}.{part}"] = getattr(citation, part)
    for number, added in enumerate(answers.added, 1):
        typed |= {f"added.{number}.criterion": added.criterion, f"added.{number}.severity": added.severity}
        typed[f"added.{number}.tags"] = list(added.tags)
    for number, highlight in enumerate(answers.highlights, 1):
        for part in ("quote", "label", "passage", "start", "end"):
            typed[f"highlight.{number}.{part}"] = getattr(highlight, part)
    return typed


def post(client: Client, action: str, assignment: Assignment, answers: Answers, **more: Any) -> Page:
    """Post `answers` to an action of the assignment ('draft', 'submit', ...) with its token.

    `more`: further form fields, and `headers`.
    """
    headers = more.pop("headers", {})
    typed = {"token": str(assignment.token), "revision": "0", **posted_fields(answers), **more}
    return client.post(reverse(f"review:{action}", args=[assignment.pk]), typed, headers=headers)


def refused_page(client: Client, refused: Page) -> Page:
    """The page of the case to which a refused post without a script leads."""
    assert refused.status_code == 302
    address = refused["Location"].partition("#")[0]
    page = client.get(address)
    assert page.status_code == 200, address
    return page


class Elements(HTMLParser):
    """Every start tag of a page with its attributes."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.tags if "id" in attrs]

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.tags if attrs.get("name") == name]


def checked_value(page: Page, name: str) -> str | None:
    """The value of the radio button or checkbox `name` that is checked, if any."""
    return next((attrs["value"] for attrs in Elements(page).named(name) if "checked" in attrs), None)


def text_of(page: Page) -> str:
    return str(page.content.decode())
