"""Selecting a passage, marking those remarked on, and the remark that was not said yet, in a real Chromium."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.plain]

SCRIPT = Path(__file__).parents[3] / "static/mhb/js/talk.js"
SITE = "https://mhb.invalid"
PAGE = """<!doctype html><title>A case</title>
<style>.diff__side--before ins, .diff__side--after del { display: none }</style>
<p class="callout__text" data-passage="1.1">Is the nodule new?</p>
<div class="diff__side diff__side--after"><div data-passage="2.3">I take <del>5</del><ins>50</ins> mg.</div></div>
<details data-talk><summary>Discussion</summary>
<blockquote data-quote>nodule</blockquote><blockquote data-quote>take 50 mg</blockquote>
<form data-remark="mhb-draft:remark:1:2"><textarea name="text"></textarea><textarea name="quote" data-quote-input></textarea>
<input type="hidden" name="passage" data-passage-input></form></details>
<script type="module" src="/talk.js"></script>"""
SELECT = "(passage) => getSelection().selectAllChildren(document.querySelector(`[data-passage='${passage}']`))"
SAID = """(status) => document.dispatchEvent(new CustomEvent("htmx:beforeSwap", { detail: {
  xhr: { status }, requestConfig: { elt: document.querySelector("[data-remark]") } } }))"""


@pytest.fixture
def case(page: Page) -> Page:
    def answer(route: Route) -> None:
        script = route.request.url.endswith("/talk.js")
        body, kind = (SCRIPT.read_text(), "text/javascript") if script else (PAGE, "text/html")
        route.fulfill(body=body, content_type=kind)

    page.route("**/*", answer)
    page.goto(SITE)
    return page


def typed(page: Page) -> list[str]:
    return [page.locator(f"[name={name}]").input_value() for name in ("text", "quote", "passage")]


def test_any_passage_can_be_selected_and_is_marked(case: Page) -> None:
    assert case.evaluate('[...CSS.highlights.get("remark")].length') == 2
    case.evaluate(SELECT, "2.3")
    case.wait_for_function("document.querySelector('[data-quote-input]').value")
    assert typed(case) == ["", "I take 50 mg.", "2.3"]


def test_a_remark_not_said_yet_is_there_again_until_it_is_said(case: Page) -> None:
    case.evaluate("document.querySelector('details').open = true")
    case.fill("[name=text]", "Half a thou")
    case.evaluate(SAID, 422)
    case.reload()
    case.wait_for_function("document.querySelector('[name=text]').value")
    assert typed(case) == ["Half a thou", "", ""]
    case.evaluate(SAID, 200)
    case.reload()
    case.wait_for_function("CSS.highlights.has('remark')")
    assert typed(case) == ["", "", ""]
