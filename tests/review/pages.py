"""Reading and posting the pages of review through Django's client."""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from django.test import Client
from django.urls import reverse

from review.models import Assignment, User
from review.rules.questions import Answers

Open = Callable[[User], Client]
Page = Any  # what the test client answers: HttpResponse, with more on it
HTMX = {"HX-Request": "true"}


def fields(answers: Answers) -> dict[str, Any]:
    """`answers` as a browser would post them."""
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
    for number, each in enumerate(answers.highlights, 1):
        for part in ("quote", "label", "passage", "start", "end"):
            typed[f"highlight.{number}.{part}"] = getattr(each, part)
    return typed


def post(client: Client, what: str, assignment: Assignment, answers: Answers, **more: Any) -> Page:
    """Post `answers` to one of the assignment's addresses, with the token it has now."""
    headers = more.pop("headers", {})
    typed = {"token": str(assignment.token), "revision": "0", **fields(answers), **more}
    return client.post(reverse(f"review:{what}", args=[assignment.pk]), typed, headers=headers)


class Elements(HTMLParser):
    """Every start tag of a page with its attributes."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.found if "id" in attrs]

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.found if attrs.get("name") == name]


def checked(page: Page, name: str) -> str | None:
    """The value of the button that is chosen."""
    return next((attrs["value"] for attrs in Elements(page).named(name) if "checked" in attrs), None)


def text_of(page: Page) -> str:
    return str(page.content.decode())
