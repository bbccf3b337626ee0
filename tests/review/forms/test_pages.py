"""The pages on which admins build review forms."""

import re
from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from review.forms import queries
from review.models import Guideline, PersonEvent, ReviewForm, User
from review.rules import limits
from tests.review.pages import Browse

pytestmark = pytest.mark.django_db

EDIT = "/review/forms/mhb/"


def typed(page: str) -> dict[str, Any]:
    """The fields that a browser would post from the editor's form, unchanged."""
    form = page[page.index('id="form"') : page.index("</form>", page.index('id="form"'))]
    fields: dict[str, list[str]] = {}
    for tag in re.findall(r"<input\b[^>]*>", form):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if attributes["name"] != "csrfmiddlewaretoken" and (attributes.get("type") != "checkbox" or " checked" in tag):
            fields.setdefault(attributes["name"], []).append(unescape(attributes.get("value", "on")))
    for name, text in re.findall(r'<textarea[^>]*?name="([^"]+)"[^>]*>\n?(.*?)</textarea>', form, re.S):
        fields.setdefault(name, []).append(unescape(text))
    for name, options in re.findall(r'<select[^>]*?name="([^"]+)"[^>]*>(.*?)</select>', form, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', options) or re.search(
            r'<option value="([^"]*)"', options
        )
        fields.setdefault(name, []).append(unescape(chosen[1]) if chosen else "")
    return dict(fields)


def test_the_editor_posts_the_built_in_form_back_unchanged(browse: Browse, adela: User) -> None:
    client = browse(adela)
    page = client.get(EDIT).content.decode()
    assert "陷阱的事实正确性" in page
    answer = client.post(EDIT, typed(page) | {"do": "publish", "note": "As it was."})
    assert answer.status_code == 302
    row = ReviewForm.objects.get()
    assert queries.design_of("mhb", row) == queries.default_design("mhb")
    assert (row.benchmark, row.version, row.author, row.note) == ("mhb", 1, adela, "As it was.")
    assert PersonEvent.objects.filter(kind="form", person=adela).count() == 1


def test_a_note_that_is_too_long_is_refused_with_what_was_typed(browse: Browse, adela: User) -> None:
    client = browse(adela)
    page = client.get(EDIT).content.decode()
    answer = client.post(EDIT, typed(page) | {"do": "publish", "note": "x" * (limits.NOTE + 1)})
    assert (answer.status_code, ReviewForm.objects.exists()) == (422, False)
    assert typed(answer.content.decode())["note"] == ["x" * (limits.NOTE + 1)]


def test_the_buttons_change_the_form_without_publishing(browse: Browse, adela: User) -> None:
    client = browse(adela)
    page = client.get(EDIT).content.decode()
    first = typed(page)
    added = client.post(EDIT, first | {"do": "add.questions"}).content.decode()
    assert typed(added)["q.6.key"] == ["question-1"]
    moved = client.post(EDIT, typed(added) | {"do": "up.questions.6"}).content.decode()
    assert typed(moved)["q.5.key"] == ["question-1"]
    more = client.post(EDIT, typed(moved) | {"do": "add-choice.questions.5"}).content.decode()
    assert typed(more)["q.5.c.3.value"] == ["1"]
    fewer = client.post(EDIT, typed(more) | {"do": "remove-choice.questions.5.1"}).content.decode()
    assert typed(fewer)["q.5.c.1.value"] == ["no"]
    gone = client.post(EDIT, typed(fewer) | {"do": "remove.questions.5"}).content.decode()
    assert {**typed(gone), "q.5.key": ["alignment"]} == {**first, "q.5.key": ["alignment"]}
    assert not ReviewForm.objects.exists()


def test_faults_are_shown_at_their_fields_and_the_input_is_kept(browse: Browse, adela: User) -> None:
    client = browse(adela)
    posted = typed(client.get(EDIT).content.decode())
    del posted["q.5.key"]  # as if somebody had removed the locked question from the page
    answer = client.post(EDIT, posted | {"q.2.label": "", "share": "many", "objection_hours": "soon", "do": "publish"})
    assert "Enter a whole number from 0 to 1440" in answer.content.decode()
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "“alignment” cannot be removed" in page
    assert "Enter the name of the question." in page
    assert "Enter a whole number from 0 to 100" in page
    assert 'value="many"' in page
    assert not ReviewForm.objects.exists()


def test_the_preview_renders_the_real_form_and_escapes_the_input(browse: Browse, adela: User) -> None:
    client = browse(adela)
    posted = typed(client.get(EDIT).content.decode())
    posted |= {"q.2.label": "<script>alert(1)</script>", "do": "preview"}
    page = client.post(f"{EDIT}preview/", posted).content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert 'name="question.noticed"' in page
    assert 'name="rubric.R1"' in page
    blind = client.post(f"{EDIT}preview/", posted | {"preview-stage": "first-look"}).content.decode()
    assert 'name="question.noticed"' in blind
    assert 'name="question.factual"' not in blind
    assert 'name="rubric.R1"' not in blind
    assert "Non-existent Entity" not in blind


def test_a_newer_version_is_not_overwritten_and_an_earlier_one_can_be_restored(browse: Browse, adela: User) -> None:
    client = browse(adela)
    posted = typed(client.get(EDIT).content.decode())
    reworded = posted | {"q.2.label": "Did anything seem wrong?", "do": "publish"}
    assert client.post(EDIT, reworded).status_code == 302
    assert client.post(EDIT, posted | {"do": "publish"}).status_code == 409
    compared = client.get(reverse("review:form-compare", args=["mhb"])).content.decode()
    assert "noticed.label" in compared
    back = {"version": "0", "base": "1"}
    assert client.post(reverse("review:form-restore", args=["mhb"]), back).status_code == 302
    assert queries.form_in_force("mhb") is not None
    assert client.post(reverse("review:form-restore", args=["mhb"]), {"version": "1", "base": "2"}).status_code == 302
    assert list(queries.versions("mhb").values_list("version", "note")) == [
        (3, "Version 1 again"),
        (2, "Built-in form"),
        (1, ""),
    ]
    listed = client.get(reverse("review:forms")).content.decode()
    assert "Version 1 again" in listed


def test_an_unknown_benchmark_has_no_form(browse: Browse, adela: User) -> None:
    assert browse(adela).get("/review/forms/invented/").status_code == 404


def test_a_guideline_is_published_with_the_form(browse: Browse, adela: User) -> None:
    client = browse(adela)
    posted = typed(client.get(EDIT).content.decode())
    assert "guideline.primary" in posted
    posted |= {"guideline.primary": "# Read twice", "do": "publish"}
    assert client.post(EDIT, posted).status_code == 302
    guideline = Guideline.objects.get()
    assert (guideline.stage, guideline.version, guideline.text) == ("primary", 1, "# Read twice")
    assert client.post(EDIT, posted | {"base": "1", "guideline.primary": "# Other"}).status_code == 409
    assert ReviewForm.objects.count() == 1
